"""Which generation of vLLM's API is used, by what is found of it and never by its version's number."""

from headrace.services.errors import ServiceError
from headrace.services.rollout.engines.vllm.adapters.base import WeightsApi
from headrace.services.rollout.engines.vllm.adapters.reload import Reload
from headrace.services.rollout.engines.vllm.adapters.transfer import IpcTransfer
from headrace.services.rollout.engines.vllm.capabilities import Capabilities


def choose(found: Capabilities, *, ranks: int) -> WeightsApi:
    """The transfer API on GPUs that have it, else a reload. Raises ServiceError where there is neither."""
    if found.gpu and found.transfers_weights:
        return IpcTransfer(ranks=ranks)
    if found.reloads_weights:
        return Reload(ranks=ranks)
    raise ServiceError(
        f"vLLM {found.version} can take no new weights while it runs (neither start_weight_update nor "
        "reload_weights with an iterator); install vllm 0.32 or later, or use engine: torch"
    )
