"""The trainer's back end on megatron-core: one policy over tensor, pipeline and data parallel processes.

Every rank runs the same calls with the same arguments. This module and `fit` import nothing heavy.
"""
