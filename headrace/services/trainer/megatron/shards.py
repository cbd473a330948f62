"""The parameters that a rank holds, set from Hugging Face tensors and streamed back to rank 0 as such.

Invariant: besides what it keeps, no rank holds more than one bucket of other ranks' numbers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeVar

import torch
from torch import distributed

from headrace.services.trainer.megatron.grid import Grid
from headrace.services.trainer.megatron.mapping import Entry
from headrace.services.trainer.tensor_files import TensorFiles

T = TypeVar("T")
Tensors = Mapping[str, torch.Tensor] | TensorFiles

BUCKET_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A parameter of this rank."""

    entry: Entry
    parameter: torch.nn.Parameter = field(repr=False)


def held(model: torch.nn.Module, entries: Sequence[Entry], stage: int) -> list[Held]:
    """The parameters of `stage`, in the order of `entries`.

    Raises RuntimeError where the model has others.
    """
    parameters = dict(model.named_parameters())
    own = [entry for entry in entries if entry.stage == stage]
    if odd := sorted(parameters.keys() ^ {entry.local for entry in own}):
        raise RuntimeError(
            f"stage {stage} of the Megatron model and its mapping differ in {len(odd)} parameters, such as "
            f"{odd[0]}; the back end is written for megatron-core 0.16"
        )
    return [Held(entry=entry, parameter=parameters[entry.local]) for entry in own]


def check_weights(entries: Sequence[Entry], weights: Tensors) -> None:
    """Raises ValueError where one is missing, unknown or of another shape."""
    shapes = {name: shape for entry in entries for name, shape in zip(entry.names, entry.shapes, strict=True)}
    if odd := sorted(shapes.keys() ^ weights.keys()):
        raise ValueError(f"weights do not fit the model: {len(odd)} names differ, such as {odd[0]}")
    for name, shape in shapes.items():
        if (found := _shape(weights, name)) != shape:
            raise ValueError(f"{name} is {found}, not {shape}")


@torch.no_grad()
def set_weights(held: Sequence[Held], weights: Tensors, grid: Grid) -> None:
    """Copies this rank's part of them. Raises ValueError as `shard_of` does."""
    for each in held:
        each.parameter.copy_(shard_of(each.entry, weights, grid))


def shard_of(entry: Entry, tensors: Tensors, grid: Grid, *, key: str = "{}") -> torch.Tensor:
    """This rank's part, of files no more than that is read; `key` is made of a Hugging Face name.

    Raises ValueError where a tensor is missing or of another shape.
    """
    parts: list[torch.Tensor] = []
    for name, shape in zip(map(key.format, entry.names), entry.shapes, strict=True):
        if name not in tensors:
            raise ValueError(f"weights do not fit the model: {name} is missing")
        if (found := _shape(tensors, name)) != shape:
            raise ValueError(f"{name} is {found}, not {shape}")
        bounds = entry.form.bounds(shape, grid.tp, grid.tp_rank)
        inside = isinstance(tensors, TensorFiles)
        parts.append(tensors.part(name, bounds) if inside else tensors[name][bounds])
    return entry.form.fuse(parts, grid.tp)


def _shape(tensors: Tensors, name: str) -> tuple[int, ...]:
    return tensors.shape(name) if isinstance(tensors, TensorFiles) else tuple(tensors[name].shape)


def published_shapes(entries: Sequence[Entry]) -> dict[str, tuple[int, ...]]:
    """Of each Hugging Face tensor, in the order in which `streamed` gives them."""
    pairs = [zip(entry.names, entry.shapes, strict=True) for entry in entries if not entry.is_copy]
    return {name: shape for each in pairs for name, shape in each}


def streamed(
    entries: Sequence[Entry],
    own: Mapping[str, torch.Tensor],
    grid: Grid,
    *,
    bucket_bytes: int = BUCKET_BYTES,
) -> Iterator[tuple[str, torch.Tensor]]:
    """Hugging Face names and tensors at rank 0, in the order of `published_shapes`; nothing on other ranks.

    `own` are this rank's shards by their local name, all of one type. Every rank goes through it to its end.
    """
    like = next(iter(own.values()))
    me = distributed.get_rank()
    published = [entry for entry in entries if not entry.is_copy]
    for bucket in _buckets(published, grid.tp, like.itemsize, bucket_bytes):
        stage = bucket[0].stage
        owners = [grid.rank(tp=tp, dp=0, pp=stage) for tp in range(grid.tp)]
        flat = torch.cat([own[entry.local].flatten() for entry in bucket]) if me in owners else None
        if me:
            if flat is not None:
                distributed.send(flat, 0)
            continue
        sizes = [prod(entry.shard_shape(grid.tp)) for entry in bucket]
        parts: list[torch.Tensor] = []
        for owner in owners:
            if owner == 0 and flat is not None:
                parts.append(flat)
                continue
            parts.append(like.new_empty(sum(sizes)))
            distributed.recv(parts[-1], owner)
        yield from _unpacked(bucket, [part.split(sizes) for part in parts], grid.tp)


def grouped(items: Sequence[T], size: Callable[[T], int], limit: int) -> Iterator[list[T]]:
    """Runs of items that together have at most `limit`; a larger one stands alone."""
    bucket: list[T] = []
    filled = 0
    for item in items:
        if bucket and filled + size(item) > limit:
            yield bucket
            bucket, filled = [], 0
        bucket.append(item)
        filled += size(item)
    if bucket:
        yield bucket


def _buckets(entries: Sequence[Entry], tp: int, itemsize: int, limit: int) -> Iterator[list[Entry]]:
    """Each of one stage, and with all ranks' shards within the limit."""
    stages = sorted({entry.stage for entry in entries})
    for stage in stages:
        own = [entry for entry in entries if entry.stage == stage]
        yield from grouped(own, lambda entry: tp * prod(entry.shard_shape(tp)) * itemsize, limit)


def _unpacked(
    bucket: Sequence[Entry], parts: Sequence[Sequence[torch.Tensor]], tp: int
) -> Iterator[tuple[str, torch.Tensor]]:
    for number, entry in enumerate(bucket):
        shards = [part[number].view(entry.shard_shape(tp)) for part in parts]
        yield from zip(entry.names, entry.form.join(shards), strict=True)
