"""What an engine that holds a model cannot carry out: requests that do not fit, and impossible sampling."""

import numpy as np

from headrace.services.rollout.engines.base import Request, Sampling

CARRIED = ("token_ids", "logprobs", "versions")


def check_request(request: Request, *, vocabulary: int, longest: int, max_new_tokens: int) -> None:
    """Raises ValueError for a prompt or a carry that a model of `vocabulary` ids cannot take, or one of
    `longest` positions together with an answer."""
    ids = np.asarray(request.prompt_ids)
    if not len(ids) or ids.min() < 0 or ids.max() >= vocabulary:
        raise ValueError(
            f"sample {request.uid}: a prompt is one or more token ids from 0 to {vocabulary - 1}, "
            f"got {ids.tolist()[:8]}; use the tokenizer of the policy's model"
        )
    if len(ids) + max_new_tokens > longest:
        raise ValueError(
            f"sample {request.uid}: {len(ids)} prompt tokens and {max_new_tokens} new "
            f"ones exceed the model's {longest} positions; shorten the prompt or lower max_new_tokens"
        )
    if request.carry is not None:
        lengths = {name: len(request.carry[name]) for name in CARRIED}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"sample {request.uid}: the parts of its carry differ in length: {lengths}")


def check_sampling(sampling: Sampling, max_concurrent: int) -> None:
    """Raises ValueError for a value that no token can be drawn with."""
    if not sampling.temperature > 0:
        raise ValueError(
            f"temperature is {sampling.temperature}; it must be above 0, since log-probabilities are taken "
            "under it; use a small one, such as 0.01, for nearly greedy answers"
        )
    if sampling.max_new_tokens < 1:
        raise ValueError(f"max_new_tokens is {sampling.max_new_tokens}; it must be 1 or more")
    if max_concurrent < 1:
        raise ValueError(f"max_concurrent is {max_concurrent}; it must be 1 or more")
