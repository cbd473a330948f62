"""What a sampler is: the order of one task's ready lots, kept as they become ready, never scanned.

A lot is what is leased at once, a row or a whole group. Samplers delete lazily: an entry counts only while
its lot is ready, so a lot that comes back is pushed again and old entries fall out. A sampler decides from
what it was told and nothing else, so the same events give the same order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.transferqueue.state.records import Group, Row
from headrace.transferqueue.state.staleness import Window

Lot = Row | Group
Key = Callable[[Lot], tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Who asks for a lot."""

    version: int = -1
    """Policy version that a begin task's replica serves; -1: none."""
    rank: int | None = None
    """Data-parallel rank; None: any lot will do."""
    ended: bool = False
    """No further rows will come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a sampler works with."""

    is_ready: Callable[[Any], bool]
    bit: int
    """The task's, in the masks of rows."""
    window: Window | None
    """Set where a policy gates the table and the task begins or trains rows."""


class Sampler(Protocol):
    """The order of one task's ready lots; what it remembers beyond them can be saved as JSON."""

    def push(self, lots: Sequence[Lot]) -> None:
        """Lots have become ready, or their place in the order has changed."""
        ...

    def heads(self, ask: Ask, most: int) -> list[Lot]:
        """Up to `most` lots that may be leased next, whatever becomes of the rest of them; none may
        be leased now: []. Changes nothing that counts."""
        ...

    def taken(self, lots: Sequence[Lot], ask: Ask) -> None:
        """These were leased: the heads, or lots of a step that is gone through again."""
        ...

    def again(self, rows: Sequence[Row]) -> list[Row]:
        """The task is done with rows: those that it shall see once more; the use is counted."""
        ...

    def forget(self, rows: Sequence[Row]) -> None:
        """The task will never see the rows again."""
        ...

    def state(self) -> dict[str, Any]:
        """What a later sampler must know to go on from here, beside the lots pushed to it."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over what `state` gave."""
        ...


class Stateless:
    """The part of a sampler that remembers nothing and shows every row once."""

    def taken(self, lots: Sequence[Lot], ask: Ask) -> None:
        """See `Sampler.taken`."""

    def again(self, rows: Sequence[Row]) -> list[Row]:
        """See `Sampler.again`."""
        return []

    def forget(self, rows: Sequence[Row]) -> None:
        """See `Sampler.forget`."""

    def state(self) -> dict[str, Any]:
        """See `Sampler.state`."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """See `Sampler.restore`."""


def deadline(lot: Lot) -> float:
    """The last step that may consume a lot; infinite where nothing is due."""
    assert lot.unit is not None
    return lot.unit.deadline
