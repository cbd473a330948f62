"""AdamW over buckets, each data-parallel rank for its part; its state by the names of Hugging Face tensors.

AdamW moves each number by itself, so that parts are moved as the whole would be, and a state that was saved
from one layout of ranks goes on in any other.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from headrace.services.options import OptimizerOptions
from headrace.services.trainer import masters, optimizer_state
from headrace.services.trainer.megatron.buckets import Bucket, buckets
from headrace.services.trainer.megatron.grid import Grid
from headrace.services.trainer.megatron.mapping import Entry
from headrace.services.trainer.megatron.shards import Held, shard_of
from headrace.services.trainer.ranks.shares import owners
from headrace.services.trainer.tensor_files import Offsets, TensorFiles

MASTER = f"{masters.PREFIX}{{}}"
MOMENTS = {moment: f"{optimizer_state.PREFIX}{{}}/{moment}" for moment in ("exp_avg", "exp_avg_sq")}
COUNT = "step"
COUNTED = f"{optimizer_state.PREFIX}{{}}/{COUNT}"


class ShardedAdamW:
    """Moves the parameters of `held` by their gradients, those in bfloat16 through float32 copies."""

    def __init__(self, held: Sequence[Held], options: OptimizerOptions, grid: Grid) -> None:
        self._grid = grid
        self.buckets = buckets(held, grid)
        self._adamw = torch.optim.AdamW(
            [bucket.stepped for bucket in self.buckets],
            lr=options.lr,
            betas=options.betas,
            eps=options.eps,
            weight_decay=options.weight_decay,
            fused=True,
        )
        owner = owners(np.array([each.parameter.numel() for each in held]), grid.dp)
        self._written = {
            each.entry.local
            for each, rank in zip(held, owner, strict=True)
            if rank == grid.dp_rank and not each.entry.is_copy and (each.entry.is_sharded or not grid.tp_rank)
        }
        """What this rank saves, so that of all ranks one saves each number."""

    def step(self, lr: float) -> None:
        for group in self._adamw.param_groups:
            group["lr"] = lr
        self._adamw.step()
        for bucket in self.buckets:
            bucket.publish(self._grid)

    def zero_grad(self) -> None:
        for bucket in self.buckets:
            bucket.gradients.zero_()

    def saved(
        self, entries: Sequence[Entry], further: Mapping[str, torch.Tensor]
    ) -> Iterator[tuple[str, Offsets, torch.Tensor]]:
        """This rank's share of the moments and copies, at rank 0 also `further`: name, where it begins in the
        whole, and the part, valid until the next; every rank goes to its end."""
        yield from self._shares()
        if self._grid.is_first:
            state = self._adamw.state.get(self.buckets[0].stepped, {})
            names = {name for entry in entries for name in entry.names} if COUNT in state else ()
            counts = {COUNTED.format(name): state[COUNT] for name in names}
            for name, tensor in (dict(further) | counts).items():
                yield name, (0,) * tensor.dim(), tensor

    @torch.no_grad()
    def load(self, state: TensorFiles) -> None:
        """Replaces all moments and copies; other tensors are ignored.

        Raises ValueError where there should be copies and are none.
        """
        self._adamw.state.clear()
        for bucket in self.buckets:
            first = bucket.held[0].entry.names[0]
            if bucket.is_copied:
                if MASTER.format(first) not in state:
                    raise ValueError(
                        "the checkpoint has no float32 copies of the weights: it was saved under another "
                        "dtype; go on with that one"
                    )
                self._read(bucket, state, MASTER, bucket.stepped)
            if COUNTED.format(first) in state:
                kept = self._adamw.state[bucket.stepped]
                kept[COUNT] = state[COUNTED.format(first)].to(bucket.stepped.device, copy=True)
                for moment, key in MOMENTS.items():
                    kept[moment] = torch.zeros_like(bucket.stepped, requires_grad=False)
                    self._read(bucket, state, key, kept[moment])

    def _shares(self) -> Iterator[tuple[str, Offsets, torch.Tensor]]:
        for bucket in self.buckets:
            for key, own in self._kept(bucket):
                views = bucket.views(bucket.whole(own, self._grid))
                for each, view in zip(bucket.held, views, strict=True):
                    if each.entry.local in self._written:
                        for name, begin, part in self._parts(each.entry, view):
                            yield key.format(name), begin, part

    def _kept(self, bucket: Bucket) -> Iterator[tuple[str, torch.Tensor]]:
        """What this rank keeps for its part of the bucket, each with the form of its names."""
        if bucket.is_copied:
            yield MASTER, bucket.stepped.detach()
        state = self._adamw.state.get(bucket.stepped, {})
        for moment, key in MOMENTS.items():
            if moment in state:
                yield key, state[moment]

    def _parts(self, entry: Entry, shard: torch.Tensor) -> Iterator[tuple[str, Offsets, torch.Tensor]]:
        """Of this rank's shard the part of each Hugging Face tensor, and where it begins there."""
        tp, rank = self._grid.tp, self._grid.tp_rank
        parts = entry.form.parts(shard, tp, rank)
        for name, shape, part in zip(entry.names, entry.shapes, parts, strict=True):
            if part.numel():
                yield name, tuple(each.start for each in entry.form.bounds(shape, tp, rank)), part

    def _read(self, bucket: Bucket, state: TensorFiles, key: str, own: torch.Tensor) -> None:
        """Sets `own`, of this rank's part of the bucket; of parameters outside it nothing is read."""
        flat = own.new_zeros(bucket.weights.shape)
        needed = {each.entry.local for each, _ in bucket.own_parts(flat)}
        for each, view in zip(bucket.held, bucket.views(flat), strict=True):
            if each.entry.local in needed:
                view.copy_(shard_of(each.entry, state, self._grid, key=key))
        own.copy_(flat[bucket.own])
