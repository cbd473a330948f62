"""What a table is: its columns, the tasks that read and write them, and the limits of the flow.

A spec is data: it is made by the planner, travels to the controller and never changes while the
table lives. Cells are checked against it at the door (`Column.to_arrow`), so nothing downstream casts.
"""

from dataclasses import dataclass
from typing import Literal

Dtype = Literal[
    "bool",
    "int32",
    "int64",
    "float32",
    "float64",
    "string",
    "json",
    "list<int8>",
    "list<int32>",
    "list<int64>",
    "list<float32>",
    "list<float64>",
]

TaskKind = Literal["begin", "work", "train"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One typed column. Columns with the same `aligned` label must agree in length in every row."""

    name: str
    dtype: Dtype
    aligned: str | None = None
    """Name of the length that this column shares, e.g. "response"; None: no relation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A named consumer of a table. A row is ready for it once every column of `reads` is written."""

    name: str
    """Unique in the run: leases name the task alone."""
    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()
    kind: TaskKind = "work"
    """`begin` starts rows and passes the staleness gate, `train` takes them and commits steps."""
    needs_full_group: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """A table and its flow.

    The staleness arithmetic counts units: groups where the `train` task needs whole groups, else rows.
    """

    name: str
    columns: tuple[Column, ...]
    tasks: tuple[Task, ...]
    policy: str | None = None
    """Policy whose versions gate this table; None: no gate and no take rule."""
    units_per_step: int = 1
    """B: units consumed by one training step."""
    staleness: float = 0.0
    """Eta: a real number >= 0, or infinity."""
    first_step: int = 0
    """Version at which the run (re)starts; `first_step * units_per_step` units count as consumed."""
    max_rows: int = 1 << 16
    """Live rows beyond which a producer of new rows waits."""
    max_bytes: int = 1 << 30
    """Live payload bytes beyond which a producer of new rows waits."""
    max_attempts: int = 3
    """Leases of one row that may fail before it is quarantined."""
    lease_s: float = 60.0
    """Seconds until an unrenewed lease expires; the client renews at a third of it."""
