"""What a table is: its columns, the tasks that read and write them, and the limits of the flow.

A spec is data: it is made by the planner, travels to the controller and never changes while the
table lives. Cells are checked against it at the door (`Column.to_arrow`), so nothing downstream casts.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from headrace.transferqueue.errors import SchemaError
from headrace.transferqueue.sampling import Sampling

if TYPE_CHECKING:
    import pyarrow as pa

Dtype = Literal[
    "bool",
    "int8",
    "uint8",
    "int32",
    "int64",
    "float32",
    "float64",
    "string",
    "json",
    "list<bool>",
    "list<int8>",
    "list<uint8>",
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
    shape: tuple[int, ...] | None = None
    """Every cell is a tensor of this shape, of a scalar dtype; None: scalars or lists."""

    def __post_init__(self) -> None:
        if self.dtype not in get_args(Dtype):
            raise SchemaError(
                f"column {self.name!r} has dtype {self.dtype!r}; allowed are {', '.join(get_args(Dtype))}"
            )
        if self.aligned is not None and not self.is_list():
            raise SchemaError(
                f"column {self.name!r} is {self.dtype} and has no length to align on {self.aligned!r}; "
                "only list<...> columns may be aligned"
            )

        if self.shape is not None and (
            self.is_list() or self.dtype in ("string", "json") or not self.shape or min(self.shape) < 1
        ):
            raise SchemaError(
                f"column {self.name!r} is {self.dtype} of shape {list(self.shape)}; a tensor has a scalar "
                "dtype of numbers and a shape of at least one size, each at least 1"
            )

    def is_list(self) -> bool:
        return self.dtype.startswith("list<")

    def to_arrow(self, values: Any) -> "pa.Array":
        """One cell per entry of `values`, in this column's Arrow type; SchemaError where one does not fit.

        Arrays (NumPy, Arrow, or anything with `__array__`) must have the exact type and pass without a
        copy. Python numbers are taken where nothing is lost, save that a Python float is rounded to
        float32. Lists: a sequence with one array or list per row, or a 2-D array. Tensors: one array
        [rows, *shape], or a sequence of arrays of the column's shape.
        """
        from headrace.transferqueue.arrays import to_arrow

        return to_arrow(self, values)


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
    sampling: Sampling | None = None
    """Order of its ready rows; None: earliest deadline for a gated train task, else oldest first."""


SAMPLE_BITS = 16
"""A row's uid is the number of its group, shifted left by these, plus its number in the group."""

_GROUPS = 1 << (63 - SAMPLE_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The table whose rows a table's groups come from, each row giving up to `prompts` groups.

    child group = (parent group * samples + parent's number in it) * prompts + index
    """

    table: str
    samples: int
    """Rows in the largest group of the parent table."""
    prompts: int
    """Groups that one row of it may give."""

    def __post_init__(self) -> None:
        for name, most in (("samples", 1 << SAMPLE_BITS), ("prompts", _GROUPS)):
            if not 1 <= getattr(self, name) <= most:
                raise SchemaError(
                    f"origin in table {self.table!r}: {name} is {getattr(self, name)}; "
                    f"allowed are 1 to {most}"
                )

    def group_of(self, uid: int, index: int) -> int:
        """Number of the group that prompt `index` of the parent row `uid` makes; SchemaError where there is
        none."""
        parent, sample = uid >> SAMPLE_BITS, uid & ((1 << SAMPLE_BITS) - 1)
        if uid < 0 or sample >= self.samples:
            raise SchemaError(
                f"row {uid} of table {self.table!r} has sample number {sample}; allowed are rows from 0 on "
                f"with samples 0 to {self.samples - 1}: declare the origin with the largest group's size"
            )
        if not 0 <= index < self.prompts:
            raise SchemaError(
                f"prompt {index} of row {uid} of table {self.table!r}; allowed are 0 to {self.prompts - 1}: "
                "make fewer prompts of a row, or declare more"
            )
        group = (parent * self.samples + sample) * self.prompts + index
        if group >= _GROUPS:
            raise SchemaError(
                f"row {uid} of table {self.table!r} gives group {group}; the greatest is {_GROUPS - 1}: "
                "declare fewer prompts or samples per row, or branch fewer times in a row"
            )
        return group

    def uid_of(self, group: int) -> int:
        """The parent row of a group."""
        if not 0 <= group < _GROUPS:
            raise SchemaError(
                f"group {group} of a table from {self.table!r}; allowed are 0 to {_GROUPS - 1}: "
                "number groups with `group_of`"
            )
        parent, sample = divmod(group // self.prompts, self.samples)
        return parent << SAMPLE_BITS | sample


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
    trains: str | None = None
    """Policy whose versions the train task makes, where no policy gates; None: the one that gates."""
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
    rewindable: bool = False
    """Rows of committed steps are kept until `checkpointed` covers them, so that `rewind` can hand them out
    again; they take no part in the two limits above, so checkpoint often enough for the space there is."""
    max_attempts: int = 3
    """Leases of one row that may fail before it is quarantined."""
    lease_s: float = 60.0
    """Seconds until an unrenewed lease expires; the client renews at a third of it."""
    origin: Origin | None = None
    """Where its groups come from; None: from a source."""
    owed: Mapping[str, str] = field(default_factory=dict)
    """Columns that a task of another table writes into its rows, and the name of that task."""

    def __post_init__(self) -> None:
        problems = [*_duplicates("column", [c.name for c in self.columns]), *self._task_problems()]
        problems += _duplicates("task", [t.name for t in self.tasks])
        problems += [*self._flow_problems(), *self._sampling_problems(), *self._origin_problems()]
        if problems:
            raise SchemaError(f"table {self.name!r}: " + "; ".join(problems))

    def column(self, name: str) -> Column:
        """The column of that name; SchemaError with the table's columns where there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        names = ", ".join(c.name for c in self.columns)
        raise SchemaError(f"table {self.name!r} has no column {name!r}; its columns are {names}")

    @property
    def train(self) -> Task | None:
        """The task that commits steps; None: rows leave once every task has acknowledged them."""
        return next((t for t in self.tasks if t.kind == "train"), None)

    @property
    def made_policy(self) -> str | None:
        """The policy that comes and goes back with the train task's steps; None: none is known."""
        return self.trains or self.policy

    @property
    def versions(self) -> Column | None:
        """The column whose smallest entry is a row's behaviour version; None: the lease's version is."""
        for column in self.columns:
            if column.name == "versions" and column.dtype in ("list<int32>", "list<int64>"):
                return column
        return None

    @property
    def figures(self) -> tuple[str, ...]:
        """Scalar columns by which a task orders its rows: their values travel with the put."""
        ordered = [
            t.sampling.by for t in self.tasks if t.sampling is not None and t.sampling.kind == "priority"
        ]
        return tuple(dict.fromkeys(ordered))

    def units_are_groups(self) -> bool:
        return self.train is not None and self.train.needs_full_group

    def to_wire(self) -> dict[str, Any]:
        """Plain data that `from_wire` reads back."""
        return asdict(self)

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "TableSpec":
        """Raises SchemaError on a spec that is not one."""
        try:
            columns = tuple(_column_from_wire(column) for column in data["columns"])
            tasks = tuple(_task_from_wire(task) for task in data["tasks"])
            origin = data.get("origin")
            origin = None if origin is None else Origin(**origin)
            return cls(**{**data, "columns": columns, "tasks": tasks, "origin": origin})
        except (TypeError, KeyError, AttributeError) as error:
            raise SchemaError(f"not a table spec: {error}") from error

    def _task_problems(self) -> Iterable[str]:
        known = {c.name for c in self.columns}
        owners: dict[str, str] = {}
        for task in self.tasks:
            for column in (*task.reads, *task.writes):
                if column not in known:
                    yield f"task {task.name!r} names column {column!r}, which the table lacks"
            for column in task.writes:
                if column in task.reads:
                    yield f"task {task.name!r} reads column {column!r} that it writes itself"
                other = owners.setdefault(column, task.name)
                if other != task.name:
                    yield f"tasks {other!r} and {task.name!r} both write column {column!r}"
            if task.kind == "begin" and not task.writes:
                yield f"begin task {task.name!r} writes no column, so nothing shows that a row was generated"
            if task.kind == "train" and task.writes:
                yield f"train task {task.name!r} writes columns; only begin and work tasks may"

    def _origin_problems(self) -> Iterable[str]:
        if self.origin is not None and self.origin.table == self.name:
            yield "its groups come from its own rows; an origin is another table"
        known = {c.name for c in self.columns}
        tasks = {t.name: t for t in self.tasks}
        written = {column: t.name for t in self.tasks for column in t.writes}
        for column, task in self.owed.items():
            if column not in known:
                yield f"task {task!r} owes column {column!r}, which the table lacks"
            elif column in written:
                yield f"column {column!r} is owed by {task!r}, and its own task {written[column]!r} writes it"
            if task in tasks:
                yield f"column {column!r} is owed by its own task {task!r}; say that the task writes it"

    def _sampling_problems(self) -> Iterable[str]:
        labels = {c.aligned for c in self.columns if c.aligned is not None}
        numbers = {c.name for c in self.columns if c.dtype in ("int32", "int64", "float32", "float64")}
        for task, sampling in [(t, t.sampling) for t in self.tasks if t.sampling is not None]:
            kind = sampling.kind
            if kind in ("shortest_first", "token_balanced") and sampling.by not in labels:
                yield (
                    f"task {task.name!r} is sampled by length {sampling.by!r}; columns are aligned on "
                    f"{', '.join(sorted(labels)) or 'nothing'}"
                )
            if kind == "priority" and sampling.by not in numbers:
                yield (
                    f"task {task.name!r} is sampled by {sampling.by!r}; scalar columns of numbers are "
                    f"{', '.join(sorted(numbers)) or 'none'}"
                )
            if kind == "replay" and (task.kind != "work" or task.writes):
                yield f"task {task.name!r} replays rows; only a work task that writes nothing may"
            if kind == "token_balanced" and task.kind == "begin":
                yield f"task {task.name!r} begins rows, whose lengths are not known: it cannot be balanced"

    def _flow_problems(self) -> Iterable[str]:
        trains = [t.name for t in self.tasks if t.kind == "train"]
        if not self.tasks:
            yield "no task reads it, so its rows would never leave"
        if len(trains) > 1:
            yield f"tasks {', '.join(trains)} are all of kind train; one at most"
        if self.policy is not None and not trains:
            yield f"policy {self.policy!r} gates it, but no task of kind train consumes it"
        if self.trains is not None and not trains:
            yield f"policy {self.trains!r} is trained on it, but no task of kind train consumes it"
        if self.trains is not None and self.policy not in (None, self.trains):
            yield f"policy {self.policy!r} gates it and {self.trains!r} is trained on it; they must be one"
        whole = [t.name for t in self.tasks if t.kind == "begin" and t.needs_full_group]
        if whole and self.policy is not None and not self.units_are_groups():
            yield f"begin task {whole[0]!r} needs full groups, so the train task must need them too"
        if math.isnan(self.staleness) or self.staleness < 0:
            yield f"staleness is {self.staleness}; it must be a number >= 0, or inf"
        for name in ("units_per_step", "max_rows", "max_bytes", "max_attempts"):
            if getattr(self, name) < 1:
                yield f"{name} is {getattr(self, name)}; it must be at least 1"
        if self.first_step < 0:
            yield f"first_step is {self.first_step}; it must be at least 0"
        if not 0 < self.lease_s < math.inf:
            yield f"lease_s is {self.lease_s}; it must be a finite number of seconds above 0"


def _column_from_wire(data: Mapping[str, Any]) -> Column:
    shape = data.get("shape")
    return Column(**{**data, "shape": None if shape is None else tuple(int(size) for size in shape)})


def _task_from_wire(data: Mapping[str, Any]) -> Task:
    sampling = data.get("sampling")
    return Task(
        **{
            **data,
            "reads": tuple(data["reads"]),
            "writes": tuple(data["writes"]),
            "sampling": None if sampling is None else Sampling(**sampling),
        }
    )


def _duplicates(kind: str, names: list[str]) -> list[str]:
    return [f"{kind} {name!r} is declared twice" for name in sorted({n for n in names if names.count(n) > 1})]
