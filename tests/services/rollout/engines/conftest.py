"""Small models, requests and the reference that the engine is held against: a plain forward pass."""

import copy
from collections.abc import Callable, Coroutine, Sequence

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from headrace.services.rollout.engines.base import Completion, Engine, Request


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def _llama() -> LlamaForCausalLM:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=13,
                hidden_size=64,
                intermediate_size=128,
                num_hidden_layers=2,
                num_attention_heads=2,
                max_position_embeddings=64,
                initializer_range=0.2,
                tie_word_embeddings=True,
                bos_token_id=None,
                eos_token_id=1,
            )
        )
    model.set_attn_implementation("sdpa")
    return model.eval()


@pytest.fixture
def llama(_llama: LlamaForCausalLM) -> LlamaForCausalLM:
    """A model of the test's own, with pronounced probabilities."""
    return copy.deepcopy(_llama)


@pytest.fixture
def requests() -> Callable[..., list[Request]]:
    def make(groups: int = 5, samples: int = 4, longest: int = 9, first_uid: int = 0) -> list[Request]:
        draws = np.random.default_rng(7)
        prompts = [draws.integers(2, 13, size=draws.integers(1, longest + 1)) for _ in range(groups)]
        return [
            Request(
                uid=first_uid + group * samples + i,
                group=group,
                prompt_ids=prompt.astype(np.int32),
                seed=1000 + group * samples + i,
            )
            for group, prompt in enumerate(prompts)
            for i in range(samples)
        ]

    return make


@pytest.fixture
def collect() -> Callable[[Engine, Sequence[Request]], Coroutine[None, None, dict[int, Completion]]]:
    async def run(engine: Engine, requests: Sequence[Request]) -> dict[int, Completion]:
        return {c.uid: c async for batch in engine.generate(requests) for c in batch}

    return run


@pytest.fixture
def plain_logprobs() -> Callable[..., np.ndarray]:
    @torch.inference_mode()
    def logprobs(
        model: PreTrainedModel, request: Request, completion: Completion, temperature: float
    ) -> np.ndarray:
        """[T]: of the answer's tokens, from one forward pass over prompt and answer."""
        ids = torch.tensor(np.concatenate((request.prompt_ids, completion.token_ids)))[None].long()
        logits = model(input_ids=ids, use_cache=False).logits[0, len(request.prompt_ids) - 1 : -1]
        table = torch.log_softmax(logits / temperature, dim=-1)
        return table.gather(1, ids[0, len(request.prompt_ids) :, None])[:, 0].numpy()

    return logprobs
