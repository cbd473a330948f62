"""Figures of a running queue, as one carrier that travels."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStats:
    """Rows of a table by their state for one task."""

    waiting: int
    """Columns that the task reads are missing."""
    parked: int
    """Cells that it reads are on a node that is away."""
    ready: int
    leased: int
    done: int
    over: bool
    """It takes no further row: it is done with every one, those to come included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStats:
    """One table; counts of rows unless a name says otherwise."""

    rows: int
    """In the table, with those that are consumed and still to be read by another task."""
    tasks: dict[str, TaskStats]
    bytes: int
    """Payload that rows in the table need."""
    leases: int
    oldest_age_s: float
    """Since the oldest row was put; 0 when there is none."""
    parked: dict[str, int]
    """By node that is away: rows that wait for it."""
    ended: bool
    step: int
    """Next step to commit."""
    staleness: float
    """The knob as it is now."""
    bound: float
    """The most staleness, in whole steps, that any row of the table may be trained at: of those begun now,
    and of those begun under another knob."""
    consumed_units: int
    """Units of committed steps and of the step in training, short steps in full."""
    outstanding_units: int
    """Units begun and not consumed."""
    created: int
    newest_group: int
    """Greatest number of a group that was ever put; -1: none was."""
    trained: int
    finished: int
    """Left because every task was done with them, and no step had consumed them."""
    dropped: dict[str, int]
    """By reason."""
    quarantined: int
    quarantine: dict[int, str] = field(repr=False)
    """The newest of them, uid to last error."""
    violations: int
    """Rows trained on beyond the staleness that they were begun under; 0 by construction."""
    duplicated: int
    """Rows offered to a second commit, each refused."""
    lost: int
    """Rows created that are neither in the table nor accounted for."""
    staleness_trained: dict[int, int]
    """Rows trained on, by staleness."""
    staleness_in_flight: dict[int, int]
    """Rows begun and not yet generated, by what their staleness were if the step in training took them."""
    staleness_in_queue: dict[int, int]
    """Rows generated and not yet trained on, likewise."""
    dispatched_length_mean: float
    """Tokens per generated row; 0 when there is none."""
    trained_length_mean: float
    """Tokens per row trained on; 0 when there is none."""

    @property
    def trained_over_dispatched_length(self) -> float:
        """Below 1 where long answers are lost on the way to training; 0 before both are known."""
        if not self.dispatched_length_mean:
            return 0.0
        return self.trained_length_mean / self.dispatched_length_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """A request that is not answered yet."""

    holder: str
    why: str
    """What is missing, and who owes it."""
    since_s: float
    """Seconds that it has waited."""
    left_s: float
    """Until it is answered that its deadline has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Somebody who has something to keep and no room for it; it is tried again, and nothing is lost."""

    holder: str
    """A client that waits with its cells; "": the queue itself, which acknowledges nothing meanwhile."""
    directory: str
    """That is full."""
    needed_bytes: int
    reason: str
    since: float
    """In seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The whole queue."""

    tables: dict[str, TableStats]
    policies: dict[str, int]
    """Newest published version by policy."""
    segments: int
    segment_bytes: int
    """Size of the payload's files, and of those that lie idle to be written again."""
    clients: int
    waiting: int
    """Requests that wait for rows, for room or for a version."""
    forgotten: int
    """Clients that went without a goodbye, since the controller started."""
    malformed: int
    """Messages that were refused unread, and peers refused at the door."""
    short: list[Shortage] = field(default_factory=list)
    """Of a queue on disk: who waits for room, the queue itself first."""

    def to_wire(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "Stats":
        tables = {name: _table_from_wire(table) for name, table in data["tables"].items()}
        return cls(**{**data, "tables": tables, "short": [Shortage(**each) for each in data["short"]]})


def _table_from_wire(data: Mapping[str, Any]) -> TableStats:
    tasks = {name: TaskStats(**task) for name, task in data["tasks"].items()}
    return TableStats(**{**data, "tasks": tasks})
