"""What the last stages found of a batch's tokens, told to every rank and put in the order of the samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import distributed

from headrace.algorithms.base import PolicyOutput
from headrace.services.devices import moved
from headrace.services.scoring.score import Ragged, unpacked
from headrace.services.trainer.megatron.batches import MicroBatch
from headrace.services.trainer.megatron.grid import Grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Samples in the order of the batch."""

    index: np.ndarray
    lengths: np.ndarray = field(repr=False)

    def policy(self, found: Mapping[str, Ragged], device: torch.device) -> PolicyOutput:
        """Their tokens, one after another, of what was `told` of each sample."""
        return PolicyOutput(
            **{
                name: moved(np.concatenate([column[i] for i in self.index]), device)
                for name, column in found.items()
            }
        )


def told(
    own: Sequence[torch.Tensor],
    shared: Sequence[Sequence[MicroBatch]],
    grid: Grid,
    *,
    size: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Ragged:
    """[`size`] of [length] on every rank, of what each data-parallel rank found of its share.

    `own` is what this rank found of each of its micro-batches, nothing but at the last stage.
    """
    parts: list[torch.Tensor] = []
    for batches, speaker in zip(shared, grid.speakers(), strict=True):
        sizes = [len(batch.targets) for batch in batches]
        if not sizes:
            continue
        speaks = distributed.get_rank() == speaker
        flat = torch.cat(list(own)) if speaks else torch.empty(sum(sizes), dtype=dtype, device=device)
        distributed.broadcast(flat, speaker)
        parts += flat.split(sizes)
    return unpacked([batch for batches in shared for batch in batches], parts, size)
