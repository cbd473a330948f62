"""The stream of prompts: what stands at each position, once and for all.

A position is the number of a group in the table. What was drawn for it never changes, so that a prompt keeps
its uids over any number of resumes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from headrace.services.data_position import DataPosition
from headrace.services.source.order import DataOrder

MAX_PROMPTS_PER_PUT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """What stands at a position."""

    position: int
    index: int
    """Of the prompt in the data set."""
    samples: int
    epoch: int


class PromptStream(Protocol):
    def next(self) -> list[Pick]:
        """The next prompts to be put, by ascending position; [] where the data has ended."""
        ...

    def metrics(self) -> dict[str, float]: ...

    def close(self) -> None: ...


class OrderedStream:
    """A data set in an order that is known in advance, every prompt with as many samples: holds no state."""

    def __init__(self, order: DataOrder, *, used: DataPosition, samples: int, per_put: int) -> None:
        self._order, self._samples, self._per_put = order, samples, per_put
        self._positions: Iterator[int] = used.remaining(order.total)

    def next(self) -> list[Pick]:
        return [self._pick(position) for position in islice(self._positions, self._per_put)]

    def _pick(self, position: int) -> Pick:
        epoch, index = self._order.at(position)
        return Pick(position=position, index=index, samples=self._samples, epoch=epoch)

    def metrics(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        """Holds nothing."""
