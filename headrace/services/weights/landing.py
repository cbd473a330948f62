"""A GPU's tensors on their way into a version's file, by two pinned buffers in turn.

    GPU ─► buffer ─► file, digested        while one buffer is read, the other is filled

Invariant: a buffer is read once all that was asked of it has landed, and filled again after it was read.
Copies wait for what was launched before the first of them, and for nothing of the step that comes next.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from headrace.services.errors import WeightsError
from headrace.services.weights.copies import THREADS, copy_digested
from headrace.services.weights.layout import BUCKET_BYTES, Bucket, Layout

LANDING_BYTES = THREADS * BUCKET_BYTES
"""Of a buffer: a bucket for each thread that reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Bytes [begin, end) of a tensor, and where they lie: in the data of a version, and in a buffer."""

    tensor: torch.Tensor = field(repr=False)
    begin: int
    end: int
    start: int
    """Of the data."""
    offset: int
    """Of the buffer."""

    @property
    def size(self) -> int:
        return self.end - self.begin


class Landing(Protocol):
    """One of the two buffers."""

    def bring(self, pieces: Sequence[Piece]) -> None:
        """Begins to fill it."""
        ...

    def landed(self) -> np.ndarray:
        """uint8 [LANDING_BYTES], once all pieces are there."""
        ...


class Pinned:
    """In memory that a GPU writes to by itself. With `device` the CPU in any, and a copy is over at once."""

    def __init__(self, device: torch.device, stream: Any) -> None:
        self._ops: Any = torch.get_device_module(device)
        self._stream = stream
        self._over = self._ops.Event()
        self._bytes = torch.empty(LANDING_BYTES, dtype=torch.uint8, pin_memory=device.type != "cpu")

    def bring(self, pieces: Sequence[Piece]) -> None:
        """See `Landing.bring`."""
        with self._ops.stream(self._stream):
            for piece in pieces:
                raw = piece.tensor.detach().contiguous().reshape(-1).view(torch.uint8)
                target = self._bytes[piece.offset : piece.offset + piece.size]
                target.copy_(raw[piece.begin : piece.end], non_blocking=True)
            self._over.record(self._stream)

    def landed(self) -> np.ndarray:
        """See `Landing.landed`."""
        self._over.synchronize()
        return self._bytes.numpy()


def pinned(device: torch.device) -> tuple[Landing, Landing]:
    """Two buffers, filled one after the other behind what has been launched on `device`."""
    ops: Any = torch.get_device_module(device)
    stream = ops.Stream(device)
    stream.wait_stream(ops.current_stream(device))
    return Pinned(device, stream), Pinned(device, stream)


def gpu_of(weights: Mapping[str, torch.Tensor]) -> torch.device | None:
    """The device that some of them are on, None where all are on the CPU. Raises WeightsError for two."""
    found = {tensor.device for tensor in weights.values() if tensor.device.type != "cpu"}
    if len(found) > 1:
        raise WeightsError(
            f"weights on {', '.join(sorted(map(str, found)))} cannot be published together; move them to one "
            "device, or to the CPU"
        )
    return next(iter(found), None)


def copy_landed(
    weights: Mapping[str, torch.Tensor], layout: Layout, data: np.ndarray, landings: tuple[Landing, Landing]
) -> list[str]:
    """Copies the tensors of a layout to their places in `data`, uint8 [its size]; the digests of its
    buckets."""
    buckets, digests = layout.buckets(), []
    loads = [buckets[at : at + THREADS] for at in range(0, len(buckets), THREADS)]
    coming = [list(_pieces(weights, layout, load)) for load in loads]
    for number, pieces in enumerate(coming[:1]):
        landings[number].bring(pieces)
    for number, load in enumerate(loads):
        if number + 1 < len(loads):
            landings[(number + 1) % 2].bring(coming[number + 1])
        buffer, pieces = landings[number % 2].landed(), coming[number]
        digests += copy_digested(
            [buffer[piece.offset : piece.offset + piece.size] for piece in pieces],
            [data[piece.start : piece.start + piece.size] for piece in pieces],
            [piece.start for piece in pieces],
            load,
        )
    return digests


def _pieces(weights: Mapping[str, torch.Tensor], layout: Layout, load: Sequence[Bucket]) -> Iterator[Piece]:
    """What buckets that follow each other are made of, in order."""
    first, last = load[0].start, load[-1].end
    for placed in layout.tensors:
        start, end = max(placed.start, first), min(placed.end, last)
        if start < end:
            yield Piece(
                tensor=weights[placed.name],
                begin=start - placed.start,
                end=end - placed.start,
                start=start,
                offset=start - first,
            )
