"""A table that is declared again, by a launch that finds it there."""

from dataclasses import replace

from headrace.transferqueue.errors import Refused
from headrace.transferqueue.schema import TableSpec
from headrace.transferqueue.state.table import Table


def adopt(table: Table, spec: TableSpec) -> None:
    """Limits and staleness may be others, and hold from now on; Refused where anything else is."""
    now = replace(table.spec, staleness=spec.staleness, max_rows=spec.max_rows, max_bytes=spec.max_bytes)
    if replace(now, first_step=spec.first_step) != spec:
        raise Refused(f"table {spec.name!r} exists with another spec: {table.spec}; it got {spec}")
    table.spec = now
    table.shelf.limit(now)
    if table.window is not None:
        table.set_staleness(spec.staleness)
