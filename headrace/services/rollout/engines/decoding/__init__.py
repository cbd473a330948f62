"""Continuous batching of a Hugging Face causal LM: slots, shared prefixes, cached attention, drawing."""
