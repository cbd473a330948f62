"""The rows and cells that a table holds, and the bytes they cost.

Invariant: a cell is written once; a block is freed exactly when the last row that needs it has left.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter, ne

from headrace.transferqueue.errors import Refused, RowsGone, SchemaError, WriteConflict
from headrace.transferqueue.schema import TableSpec
from headrace.transferqueue.state.ledger import Ledger
from headrace.transferqueue.state.records import Block, Entry, Group, Row, Unit

_blocks = attrgetter("blocks")


class Shelf:
    """Rows by uid, groups by number."""

    def __init__(self, spec: TableSpec, ledger: Ledger) -> None:
        self.rows: dict[int, Row] = {}
        self.bytes = 0
        self.consumed = 0
        """Rows that a step has consumed and some task still has to read."""
        self._spec = spec
        self._ledger = ledger
        self._groups: dict[int, Group] = {}
        self._uncounted = Unit() if spec.train is None else None
        self._whole_units = spec.units_are_groups()
        self._counts = len(spec.tasks) if any(task.needs_full_group for task in spec.tasks) else 0
        """Counts that a group keeps, one per task; none where no task leases whole groups."""
        self._serials = 0
        self._freed: list[Block] = []
        self._left: list[Row] = []
        self._room = False

    def limit(self, spec: TableSpec) -> None:
        """Other limits hold from now on."""
        self._spec = spec
        self._room = True

    def room(self, rows: int, size: int) -> bool:
        """Whether that many more rows and payload bytes fit now; SchemaError if they never can."""
        spec = self._spec
        if rows > spec.max_rows or size > spec.max_bytes:
            raise SchemaError(
                f"a put of {rows} rows and {size} bytes can never fit table {spec.name!r}, which holds "
                f"{spec.max_rows} rows and {spec.max_bytes} bytes: put less at once or raise the limit"
            )
        return len(self.rows) + rows <= spec.max_rows and self.bytes + size <= spec.max_bytes

    def find(self, uids: list[int]) -> list[Row]:
        """The rows of these uids; RowsGone names those that are not here and why."""
        try:
            return [self.rows[uid] for uid in uids]
        except KeyError:
            missing = [uid for uid in uids if uid not in self.rows]
            ended = self._ledger.is_gone(missing[0])
            raise RowsGone(
                f"rows {missing[:8]} are not in table {self._spec.name!r}: "
                + ("they were consumed, dropped or quarantined" if ended else "they were never put")
            ) from None

    def is_new(self, entry: Entry) -> bool:
        """Whether a put with groups creates its rows; refused where only some are new."""
        assert entry.groups is not None
        gone = self._ledger.gone(entry.uids)
        if gone:
            raise RowsGone(
                f"rows {gone[:8]} of table {self._spec.name!r} have been and gone; uids are used once"
            )
        if self.rows.keys().isdisjoint(entry.uids):
            self._check_new_groups(entry.groups)
            return True
        known = [uid for uid in entry.uids if uid in self.rows]
        if len(known) < len(entry.uids):
            raise Refused(
                f"rows {known[:8]} are there already and others of this put are not; put whole groups"
            )
        moved = [u for u, g in zip(entry.uids, entry.groups, strict=True) if self.rows[u].group.number != g]
        if moved:
            raise WriteConflict(f"rows {moved[:8]} are there already, in other groups")
        return False

    def create(self, now: float, entry: Entry) -> list[Row]:
        """Adds the rows of a put, those of one group together; returns them in the put's order."""
        assert entry.groups is not None
        counts, group, unit = [0] * self._counts, None, self._uncounted
        for serial, (uid, number) in enumerate(_by_group(entry.uids, entry.groups), self._serials):
            if group is None or group.number != number:
                unit = Unit() if self._whole_units else self._uncounted
                group = Group(number, serial, unit, {}, counts.copy(), counts.copy())
                self._groups[number] = group
            row = Row(uid, serial, group, unit or Unit(rows=1), now)
            group.rows[uid] = self.rows[uid] = row
            if self._whole_units:
                row.unit.rows += 1
        self._serials += len(entry.uids)
        self._ledger.created += len(entry.uids)
        self._ledger.newest_group = max(self._ledger.newest_group, *entry.groups)
        return [self.rows[uid] for uid in entry.uids]

    def write(self, entry: Entry, rows: list[Row]) -> list[Row]:
        """Adds the cells that are not there yet; returns the rows that changed."""
        block, columns, changed = entry.block, entry.columns, []
        plain = not (entry.lengths or entry.figures or entry.floors)
        before: tuple[Block, ...] | None = None
        after = (block,)
        for index, row in enumerate(rows):
            if row.written & columns == columns:
                continue
            if row.blocks is not before:
                before, after = row.blocks, (*row.blocks, block)
            row.blocks = after
            row.indices = (*row.indices, index)
            row.written |= columns
            if not plain:
                _describe(row, entry, index)
            changed.append(row)
        block.columns = columns
        block.live = len(changed)
        if changed:
            self.bytes += block.length
        else:
            self._freed.append(block)
        return changed

    def discard(self, rows: Sequence[Row], *, keep: bool = False) -> None:
        """Rows leave, and with them their claim on their blocks, unless they are to `keep` for them."""
        for row in rows:
            group = row.group
            del self.rows[row.uid], group.rows[row.uid]
            if keep:
                row.kept = True
                group.kept += 1
            elif not group.rows:
                self._drop_if_empty(group)
        self.consumed -= sum([row.step >= 0 for row in rows])
        self._room = self._room or bool(rows)
        if not keep:
            self._left += rows
        for blocks, count in Counter(map(_blocks, rows)).items():
            for block in blocks:
                block.kept += count * keep
                self._unclaim(block, count)

    def unwrite(self, row: Row, columns: int, labels: set[str]) -> None:
        """Cells are gone: the row is as before they were written; `labels` name the lengths that go too."""
        rest = []
        for block, index in row.cells:
            if block.columns & columns:
                self._unclaim(block, 1)
            else:
                rest.append((block, index))
        row.blocks, row.indices = tuple(block for block, _ in rest), tuple(index for _, index in rest)
        row.lengths = {label: length for label, length in row.lengths.items() if label not in labels}
        row.written &= ~columns

    def forget(self, row: Row) -> None:
        """A row that was kept will not come back."""
        row.kept = False
        row.group.kept -= 1
        self._left.append(row)
        self._drop_if_empty(row.group)
        for block in row.blocks:
            block.kept -= 1
            self._free_if_unused(block)

    def restore(self, row: Row) -> None:
        """A row that was kept is in the table again."""
        row.kept = False
        row.group.kept -= 1
        row.group.rows[row.uid] = self.rows[row.uid] = row
        for block in row.blocks:
            block.kept -= 1
            block.live += 1
            if block.live == 1:
                self.bytes += block.length

    def is_settled(self) -> bool:
        """Whether `drain` has nothing to give."""
        return not (self._freed or self._left or self._room)

    def drain(self) -> tuple[tuple[Block, ...], bool, tuple[Row, ...]]:
        """Blocks freed since the last call, whether rows left, and those that left for good."""
        freed, room, left = tuple(self._freed), self._room, tuple(self._left)
        self._freed, self._room, self._left = [], False, []
        return freed, room, left

    def _drop_if_empty(self, group: Group) -> None:
        if not group.rows and not group.kept:
            del self._groups[group.number]

    def _unclaim(self, block: Block, rows: int) -> None:
        block.live -= rows
        if not block.live:
            self.bytes -= block.length
            self._free_if_unused(block)

    def _free_if_unused(self, block: Block) -> None:
        if not block.live and not block.kept:
            self._freed.append(block)

    def _check_new_groups(self, numbers: list[int]) -> None:
        if not self._groups.keys().isdisjoint(numbers):
            known = sorted({number for number in numbers if number in self._groups})
            raise Refused(f"groups {known[:8]} are there already; a group is put whole, by one put")


def _describe(row: Row, entry: Entry, index: int) -> None:
    """Keeps what the put says of a row beside its cells."""
    if entry.lengths:
        row.lengths = {**row.lengths, **{name: all_[index] for name, all_ in entry.lengths.items()}}
    if entry.figures:
        row.figures = {**row.figures, **{name: all_[index] for name, all_ in entry.figures.items()}}
    if entry.floors is not None and entry.floors[index] >= 0:
        row.version = entry.floors[index]
        row.newest = (entry.ceilings or entry.floors)[index]


def _by_group(uids: list[int], numbers: list[int]) -> Iterable[tuple[int, int]]:
    """Row and group ids, those of one group together, the groups in the order of their first row."""
    pairs = zip(uids, numbers, strict=True)
    turns = 1 + sum(map(ne, numbers, islice(numbers, 1, None)))
    if turns == len(set(numbers)):
        return pairs
    order: dict[int, int] = {}
    for number in numbers:
        order.setdefault(number, len(order))
    return sorted(pairs, key=lambda pair: order[pair[1]])
