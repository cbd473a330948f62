"""What the policy says of a batch before an update touches it: the proximal log-probabilities and values."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from headrace.services.scoring.packing import Pack
from headrace.services.scoring.score import Ragged
from headrace.services.trainer.scores import Scores


def before(scores: Scores, packs: Sequence[Pack], *, names: Sequence[str]) -> dict[str, list[torch.Tensor]]:
    """`logprobs` and those of `OUTPUTS` that are named, of each answer token: [T] of each pack.

    No gradient.
    """
    asked = ("logprobs", *names)
    parts: dict[str, list[torch.Tensor]] = {name: [] for name in asked}
    with torch.no_grad():
        for packed in packs:
            if not names:
                parts["logprobs"].append(scores.logprobs(packed))
                continue
            policy = scores.outputs(packed, names)
            for name in asked:
                parts[name].append(getattr(policy, name))
    return parts


def aligned(columns: Mapping[str, Ragged], response_ids: Sequence[np.ndarray]) -> dict[str, Ragged]:
    """`columns` with zeros for the answers that are in no pack."""
    return {
        name: [
            values if len(values) == len(ids) else np.zeros(len(ids), dtype=np.float32)
            for values, ids in zip(column, response_ids, strict=True)
        ]
        for name, column in columns.items()
    }
