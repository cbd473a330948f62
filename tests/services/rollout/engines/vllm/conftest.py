"""A vLLM of the test's own, stepped by hand, and the forward passes that it is held against."""

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from headrace.services.models import load
from headrace.services.options import LoraOptions, PolicyOptions, RolloutOptions
from headrace.services.rollout.engines.base import Completion, Request
from headrace.services.rollout.engines.decoding.slots import Sample
from headrace.services.rollout.engines.vllm.decoder import VllmDecoder

SEED = 3


@pytest.fixture
def model() -> PreTrainedModel:
    """What the engines below serve, in transformers."""
    return load("tiny-copier", dtype="float32", seed=SEED).model


@pytest.fixture
def started() -> Iterator[Callable[..., VllmDecoder]]:
    """Starts vLLM with tiny-copier; ended after the test."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vllm is not installed; `make vllm` makes an environment with it")
    from headrace.services.rollout.engines.vllm.engine import start_decoder

    running: list[VllmDecoder] = []

    def make(lora: LoraOptions | None = None, **options: Any) -> VllmDecoder:
        rollout = RolloutOptions(engine="vllm", **{"temperature": 1.2, "max_new_tokens": 12, **options})
        policy = PolicyOptions(model="tiny-copier", lora=lora)
        running.append(start_decoder(rollout, policy, seed=SEED, version=0))
        return running[-1]

    yield make
    for decoder in running:
        decoder.close()


@pytest.fixture
def decode() -> Callable[..., dict[int, Completion]]:
    def run(
        decoder: VllmDecoder, requests: Sequence[Request] = (), *, steps: int | None = None
    ) -> dict[int, Completion]:
        """Adds `requests` and steps until all are whole, or `steps` times."""
        decoder.add(Sample(request=request, owner=None) for request in requests)
        passes = count()
        found: dict[int, Completion] = {}
        while decoder.running or decoder.waiting:
            finished = decoder.run(lambda: steps is not None and next(passes) >= steps, start=True)
            found |= {completion.uid: completion for _, completion in finished}
            if not finished:
                break
        return found

    return run


@pytest.fixture
def other_weights() -> Callable[[PreTrainedModel], dict[str, torch.Tensor]]:
    def make(model: PreTrainedModel) -> dict[str, torch.Tensor]:
        """Another version of a model, as its trainer publishes it."""
        draws = torch.Generator().manual_seed(1)
        return {
            name: tensor + 0.1 * torch.randn(tensor.shape, generator=draws)
            for name, tensor in model.state_dict().items()
            if name != "lm_head.weight"
        }

    return make


@pytest.fixture
def with_kept_cache() -> Callable[..., np.ndarray]:
    @torch.inference_mode()
    def logprobs(
        old: PreTrainedModel,
        new: PreTrainedModel,
        request: Request,
        completion: Completion,
        *,
        before: int,
        temperature: float,
    ) -> np.ndarray:
        """[T - before]: of the tokens behind the first `before`, by the new model over what the old one has
        cached of the prompt and of those, the last of them left out."""
        ids = torch.tensor(np.concatenate((request.prompt_ids, completion.token_ids)))[None].long()
        cached = len(request.prompt_ids) + before - 1
        cache = old(input_ids=ids[:, :cached], use_cache=True).past_key_values
        logits = new(input_ids=ids[:, cached:-1], past_key_values=cache, use_cache=True).logits[0]
        table = torch.log_softmax(logits / temperature, dim=-1)
        return table.gather(1, ids[0, cached + 1 :, None])[:, 0].numpy()

    return logprobs
