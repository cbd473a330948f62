"""Headrace: a service-oriented dataflow RL engine for post-training language models."""

__version__ = "0.1.0"
