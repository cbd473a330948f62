"""What a put, a lease or a commit must satisfy beyond types, given what the table holds already."""

from collections.abc import Mapping, Sequence

from headrace.transferqueue.errors import LeaseLost, Refused, RowsGone, SchemaError, StepRefused
from headrace.transferqueue.schema import TableSpec
from headrace.transferqueue.state.flow import Flow
from headrace.transferqueue.state.leases import Leases
from headrace.transferqueue.state.ledger import Ledger
from headrace.transferqueue.state.records import Entry, Row, Unit
from headrace.transferqueue.state.shelf import Shelf
from headrace.transferqueue.state.staleness import Window


def require_train(flow: Flow) -> Flow:
    """Refused where a task has no steps."""
    if flow.task.kind != "train":
        raise Refused(f"task {flow.task.name!r} is of kind {flow.task.kind}; only a train task has steps")
    return flow


def written_rows(
    shelf: Shelf, leases: Leases, flows: Sequence[Flow], entry: Entry, bits: Mapping[str, int]
) -> list[Row]:
    """The rows that a put writes to; SchemaError where one under a lease is not all its task writes."""
    if entry.lease is None:
        return shelf.find(entry.uids)
    held = leases.get(entry.lease)
    flow = flows[held.task]
    if entry.columns != flow.writes:
        got = [name for name, bit in bits.items() if entry.columns & bit]
        raise SchemaError(
            f"task {flow.task.name!r} writes {', '.join(flow.task.writes) or 'nothing'}, all in one put; "
            f"got {', '.join(got)}"
        )
    return leases.rows(held, entry.uids)


def check_versions(entry: Entry, rows: list[Row], *, newest_version: int) -> None:
    """SchemaError where a token is newer than any published version, or older than its row's begin."""
    if entry.floors is None:
        return
    newest = max(entry.ceilings or entry.floors, default=-1)
    if newest > newest_version:
        raise SchemaError(f"a token has version {newest}; the newest published is {newest_version}")
    for row, floor in zip(rows, entry.floors, strict=False):
        if 0 <= floor < row.version:
            raise SchemaError(
                f"row {row.uid} has a token of version {floor}, older than version {row.version} at "
                "which it was begun"
            )


def check_lengths(entry: Entry, rows: list[Row]) -> None:
    """SchemaError where aligned columns of a row, written now and before, differ in length."""
    for label, lengths in entry.lengths.items():
        for row, length in zip(rows, lengths, strict=True):
            known = row.lengths.get(label, length)
            if known != length and not row.written & entry.columns:
                raise SchemaError(
                    f"row {row.uid}: {known} entries are written and {length} got, in columns aligned on "
                    f"{label!r}; they must agree in length"
                )


def check_done(flow: Flow, rows: list[Row]) -> None:
    """Refused where an ack is not how the task ends rows, or where it has not written what it owes."""
    task, owed = flow.task, flow.writes
    if task.kind == "train":
        raise Refused(f"train task {task.name!r} ends its rows with commit(step), not with ack")
    bare = [row.uid for row in rows if row.written & owed != owed and not row.consumed]
    if bare:
        raise Refused(
            f"rows {bare[:8]} lack what task {task.name!r} owes ({', '.join(task.writes)}): "
            "put it before the ack, or release the rows"
        )


def held_rows(shelf: Shelf, ledger: Ledger, flow: Flow, uids: list[int], holder: str) -> list[Row]:
    """The rows that a step names; RowsGone where one was trained on, LeaseLost where another holds it."""
    again = [uid for uid in ledger.gone(uids) if not ledger.was_dropped(uid)]
    again += [uid for uid in uids if uid in shelf.rows and shelf.rows[uid].consumed]
    if again:
        ledger.duplicated += len(again)
        raise RowsGone(f"rows {again[:8]} have been trained on or quarantined; nothing is trained on twice")
    rows = shelf.find(uids)
    loose = [r.uid for r in rows if flow.index not in r.leases or r.leases[flow.index].holder != holder]
    if loose:
        raise LeaseLost(f"rows {loose[:8]} are not leased by {holder!r}; nothing was committed")
    return rows


def whole_units(window: Window | None, step: int, rows: list[Row]) -> list[Unit]:
    """The units that a step is made of; StepRefused where one is not whole, or another must be in it."""
    counts: dict[int, int] = {}
    units = {id(row.unit): row.unit for row in rows}
    for row in rows:
        counts[id(row.unit)] = counts.get(id(row.unit), 0) + 1
    partial = [row for row in rows if counts[id(row.unit)] < row.unit.rows]
    if partial:
        raise StepRefused(
            f"step {step} has {counts[id(partial[0].unit)]} of the {partial[0].unit.rows} rows of group "
            f"{partial[0].group.number}; commit whole groups, or drop the other rows first"
        )
    if window is not None and not window.may_commit(len(units)):
        raise StepRefused(
            f"step {step} has {len(units)} of {window.units_per_step} units, and units that must be "
            "in it are still out; lease them before the commit"
        )
    return list(units.values())


def lease_version(
    spec: TableSpec, flow: Flow, ledger: Ledger, version: int | None, *, newest_version: int
) -> int:
    """The version that a lease is asked for at, -1 for none; StepRefused on one that is not due."""
    kind = flow.task.kind
    if kind == "train" and version not in (None, ledger.step):
        raise StepRefused(f"version {version} is not the one in training; step {ledger.step} is due")
    if kind == "begin" and spec.policy is not None:
        if version is None:
            raise StepRefused(f"task {flow.task.name!r} begins rows: say the version that the replica serves")
        if version > newest_version:
            raise StepRefused(
                f"version {version} of policy {spec.policy!r} is not published; newest is {newest_version}"
            )
    return -1 if version is None else version
