"""How a sample is drawn, in the words of vLLM's SamplingParams."""

from typing import Any

import numpy as np

from headrace.services.rollout.engines.base import Request, Sampling
from headrace.services.rollout.engines.decoding.streams import stream_keys


def sampling_fields(sampling: Sampling, request: Request, *, drawn: int) -> dict[str, Any]:
    """Fields for a request that has `drawn` tokens: ids alone, no truncation, the chosen token's
    log-probability, and an end at our stop tokens only."""
    return {
        "temperature": sampling.temperature,
        "top_p": 1.0,
        "top_k": 0,
        "max_tokens": request.most(sampling.max_new_tokens) - drawn,
        "seed": stream_seed(request.seed, drawn),
        "stop_token_ids": list(sampling.stop_token_ids),
        "ignore_eos": True,
        "logprobs": 0,
        "detokenize": False,
    }


def stream_seed(seed: int, drawn: int) -> int:
    """A 63-bit seed. One that goes on has another stream than the one that it began with, which vLLM would
    otherwise draw from its start again."""
    return int(stream_keys([seed + drawn])[0] >> np.uint64(1))
