"""The in-process engine: any Hugging Face causal LM behind one decode loop.

engine = TorchEngine(model, Sampling(max_new_tokens=32), max_concurrent=256)
async for completions in engine.generate(requests): ...
await engine.load(1, weights)
await engine.close()
"""

from transformers import PreTrainedModel

from headrace.services.rollout.engines.base import OverNewWeights, Sampling
from headrace.services.rollout.engines.decode_loop import DecodeLoop
from headrace.services.rollout.engines.decoding.decoder import Decoder
from headrace.services.rollout.engines.refusals import check_sampling


class TorchEngine(DecodeLoop):
    """Continuous batching of `model`; see `Engine` for the contract."""

    def __init__(
        self,
        model: PreTrainedModel,
        sampling: Sampling,
        *,
        max_concurrent: int = 256,
        over_new_weights: OverNewWeights = "swap",
        version: int = 0,
        group_by_group: bool = False,
    ) -> None:
        """`group_by_group`: decode one prompt's answers at a time, so that their numbers are a function of
        them and the weights alone, to the last bit."""
        check_sampling(sampling, max_concurrent)
        decoder = Decoder(
            model, sampling, max_concurrent=max_concurrent, version=version, group_by_group=group_by_group
        )
        super().__init__(decoder, over_new_weights=over_new_weights)
