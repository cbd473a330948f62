"""The parts of megatron-core that the back end uses, imported once and ready for this machine's device.

megatron-core warns of each optional package that is absent (Transformer Engine, Apex) and of its own
defaults; the back end asks for neither, so that these warnings say nothing here.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from headrace.services.trainer.megatron import cpu_shim


@contextmanager
def quiet() -> Iterator[None]:
    """Within it megatron-core warns of nothing."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"megatron\.|torch\.jit\.")
        yield


with quiet():
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.tensor_parallel.random import initialize_rng_tracker
    from megatron.core.transformer.multi_token_prediction import MTPLossAutoScaler
    from megatron.core.transformer.transformer_config import TransformerConfig

__all__ = [
    "GPTModel",
    "MTPLossAutoScaler",
    "TransformerConfig",
    "get_forward_backward_func",
    "get_gpt_layer_local_spec",
    "initialize_rng_tracker",
    "parallel_state",
    "quiet",
    "ready",
    "tensor_parallel",
]


def ready(device: torch.device) -> None:
    """To be called before a model is made on `device`: megatron-core is sent to the CPU where that is it."""
    if device.type == "cpu":
        cpu_shim.install()
