"""How a replica of the engine `vllm` uses its machine."""

from dataclasses import dataclass
from typing import Annotated

from headrace.algorithms.bounds import Count, Positive, Range


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmOptions:
    """vLLM's own settings, for the engine `vllm`."""

    tensor_parallel: Count = 1
    """GPUs that share the model, all of one replica."""
    max_model_len: Count | None = None
    """Longest prompt and answer together, in tokens; None: the model's positions."""
    gpu_memory_utilization: Annotated[float, Range(gt=0, le=1)] = 0.9
    """Share of each GPU's memory that weights and cache may take."""
    cpu_cache_gib: Positive = 1.0
    """GiB for cached keys and values where there is no GPU; it must hold the longest prompt and answer."""
    enforce_eager: bool = False
    """Run the model without CUDA graphs; so it is in any case where there is no GPU."""
