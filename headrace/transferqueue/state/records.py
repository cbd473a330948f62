"""What a table remembers: blocks of cells, rows, groups, the units that staleness counts, leases.

Plain mutable records, changed by `table.py` alone. Tasks and columns are bits of an int, so that a row's
readiness is one comparison.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from headrace.transferqueue.state.staleness import INFINITE

NOTHING: Mapping[Any, Any] = MappingProxyType({})
"""Shared by all rows until they have something of their own: a table holds many rows."""


@dataclass(slots=True, kw_only=True, eq=False)
class Block:
    """Cells of several rows, written at once: one record batch in a segment."""

    segment: str
    offset: int
    length: int
    checksum: int = 0
    """Of its bytes, as `payload.segments.checksum` makes it; 0: none was taken."""
    node: str = ""
    """Whose storage unit has it; "": it lies beside the controller."""
    columns: int = 0
    """Bits of the columns that it holds."""
    live: int = 0
    """Rows in the table that need it."""
    kept: int = 0
    """Rows that left it and may come back."""


@dataclass(slots=True, kw_only=True, eq=False)
class Unit:
    """What staleness counts: a group or a row, as the table says."""

    rows: int = 0
    """Rows neither dropped, quarantined nor consumed."""
    version: int = -1
    """Behaviour version of its first begin; -1: not begun, and not counted."""
    deadline: float = INFINITE
    """Last step that may consume it."""
    slack: float = INFINITE
    """Staleness allowed when it was begun."""
    taken: int = 0
    """Rows leased by the train task; the unit holds a place while there is one."""

    @property
    def begun(self) -> bool:
        return self.version >= 0

    def uncount(self) -> None:
        """It is as if nobody had begun it."""
        self.version, self.deadline, self.slack, self.taken = -1, INFINITE, INFINITE, 0


@dataclass(slots=True, eq=False)
class Group:
    """Rows of one prompt, and how many of them each task still waits for that leases whole groups."""

    number: int
    serial: int
    unit: Unit | None
    """Set where whole groups are the units, or where no task trains and units are not counted."""
    rows: "dict[int, Row]"
    pending: list[int]
    """By task: rows not done with."""
    ready: list[int]
    """By task: rows that may be leased now."""
    kept: int = 0
    """Rows that left the table and may come back; its number stays taken."""


@dataclass(slots=True, init=False, eq=False)
class Row:
    """One sample; `written` has the bits of its columns, the next five those of tasks.

    Its mappings and tuples are replaced as a whole, never changed in place, so that rows which move together
    share them. Rows are made by the thousand, hence the constructor by hand.
    """

    uid: int
    serial: int
    group: Group
    unit: Unit
    created_s: float
    written: int
    ready: int
    leased: int
    done: int
    passed: int
    """Those of `done` that were over and never had it."""
    parked: int
    """Those that read cells on a node that is away."""
    version: int
    carry: bytes | None
    """Packed by the client that handed the row back; never decoded here."""
    newest: int
    """Greatest version of its tokens; `version` is the least."""
    step: int
    """The one that consumed it; -1: none has. It stays while another task still has to read it."""
    kept: bool
    """It has left the table, and waits for a checkpoint that covers its step."""
    blocks: tuple[Block, ...]
    """Where its cells are, in the order in which they were written."""
    indices: tuple[int, ...]
    """Its place in each of `blocks`."""
    lengths: Mapping[str, int]
    figures: Mapping[str, float]
    """Values of the columns by which some task orders its rows."""
    failures: Mapping[int, int]
    """Failed leases by task index."""
    leases: "Mapping[int, Held]"
    """Who holds it, by task index."""

    def __init__(self, uid: int, serial: int, group: Group, unit: Unit, created_s: float) -> None:
        self.uid = uid
        self.serial = serial
        self.group = group
        self.unit = unit
        self.created_s = created_s
        self.written = self.ready = self.leased = self.done = self.passed = self.parked = 0
        self.version = self.newest = self.step = -1
        self.carry = None
        self.kept = False
        self.blocks = self.indices = ()
        self.lengths = self.figures = self.failures = self.leases = NOTHING

    @property
    def consumed(self) -> bool:
        return self.step >= 0

    @property
    def cells(self) -> tuple[tuple[Block, int], ...]:
        """Blocks and its place in each."""
        return tuple(zip(self.blocks, self.indices, strict=True))


@dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """A lease as the table knows it."""

    id: int
    task: int
    holder: str
    deadline_s: float
    rows: dict[int, Row] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A version of a policy that receivers may pull."""

    policy: str
    version: int
    checksum: str
    timeline: int = 0
    """Grows by one where a trainer that went back came to another result than before."""
    serial: int = 0
    """Number of the announcement among those of its policy; a version may be announced again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One put as the table sees it: which cells, for whom, and the figures the client took from them."""

    uids: list[int]
    columns: int
    block: Block
    groups: list[int] | None = None
    """Given: the rows are new. None: they are there already."""
    lease: int | None = None
    floors: list[int] | None = None
    """Least entry of `versions` per row, -1 for an empty cell; None: the put has no such column."""
    ceilings: list[int] | None = None
    """Greatest entry of it; None: as `floors`."""
    lengths: dict[str, list[int]] = field(default_factory=dict)
    """Cell lengths by `aligned` label."""
    figures: dict[str, list[float]] = field(default_factory=dict)
    """Values of those of the put's columns by which a task orders its rows."""
    known_same: bool = False
    """The client compared the cells that were there already and found the same bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What an event makes possible elsewhere."""

    tasks: tuple[str, ...] = ()
    """Tasks for which a lease may now be granted, or refused for good."""
    freed: tuple[Block, ...] = ()
    """Blocks that no row needs any more; room for producers was made if there is one."""
    room: bool = False
    """Rows left the table."""
    left: tuple[Row, ...] = ()
    """Rows that left it for good."""
