"""What the policy says of a batch before an update touches it: the proximal log-probabilities and values."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from headrace.services.scoring.packing import pack
from headrace.services.scoring.score import Ragged, unpacked
from headrace.services.trainer.scores import Scores


def before(
    scores: Scores,
    prompt_ids: Sequence[np.ndarray],
    response_ids: Sequence[np.ndarray],
    groups: np.ndarray,
    *,
    names: Sequence[str],
    max_tokens: int,
) -> dict[str, Ragged]:
    """`logprobs` and those of `OUTPUTS` that are named, of each answer's tokens, in the order given.

    No gradient; at most `max_tokens` tokens pass through the model at once. Raises ValueError as `pack` does.
    """
    packs = pack(prompt_ids, response_ids, groups, max_tokens=max_tokens)
    asked = ("logprobs", *names)
    parts: dict[str, list[torch.Tensor]] = {name: [] for name in asked}
    with torch.inference_mode():
        for packed in packs:
            if not names:
                parts["logprobs"].append(scores.logprobs(packed))
                continue
            policy = scores.outputs(packed, names)
            for name in asked:
                parts[name].append(getattr(policy, name))
    return {name: unpacked(packs, parts[name], len(response_ids)) for name in asked}


def aligned(columns: Mapping[str, Ragged], response_ids: Sequence[np.ndarray]) -> dict[str, Ragged]:
    """`columns` with zeros for the answers that are in no pack."""
    return {
        name: [
            values if len(values) == len(ids) else np.zeros(len(ids), dtype=np.float32)
            for values, ids in zip(column, response_ids, strict=True)
        ]
        for name, column in columns.items()
    }
