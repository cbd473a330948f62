"""A durable queue as a person reads it: its tables, who holds what, and which rows gave up why."""

from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headrace.transferqueue.disk.look import HeldRows, Look
from headrace.transferqueue.stats import TableStats

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def queue_directory(path: Path) -> Path:
    """The queue of a run directory, or the path itself."""
    inside = path / "queue"
    return inside if (inside / "journal.db").is_file() else path


def render(look: Look) -> RenderableType:
    """For `rich.console.Console.print`."""
    versions = ", ".join(f"{policy} at version {version}" for policy, version in look.versions.items())
    versions = versions or "nothing published"
    parts: list[RenderableType] = [
        Text.assemble((look.directory, "bold"), f"  last change {_seconds(look.idle_s)} ago"),
        Text(f"payload {look.segments} segments, {_size(look.segment_bytes)}; {versions}"),
    ]
    for name, table in look.tables.items():
        parts.append(Padding(_table(name, table), (1, 0, 0, 0)))
        parts += [
            Text(f"  {count} rows parked on node {node}: it is away") for node, count in table.parked.items()
        ]
        parts += [Text(f"  {line}") for line in _ended(table)]
    if look.leases:
        parts.append(Padding(Group(*(Text(_lease(lease)) for lease in look.leases)), (1, 0, 0, 0)))
    return Group(*parts)


def _table(name: str, table: TableStats) -> RenderableType:
    limit = f", step {table.step}, staleness {table.staleness:g}" if table.step or table.trained else ""
    head = Text.assemble(
        (name, "bold"),
        f"  {table.rows} rows, {_size(table.bytes)}, the oldest {_seconds(table.oldest_age_s)} old{limit}",
    )
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    grid.add_column("task", no_wrap=True)
    for heading in ("waiting", "parked", "ready", "leased", "done"):
        grid.add_column(heading, justify="right")
    for task, figures in table.tasks.items():
        counts = (figures.waiting, figures.parked, figures.ready, figures.leased, figures.done)
        grid.add_row(f"{task} (over)" if figures.over else task, *map(str, counts))
    return Group(head, Padding(grid, (0, 0, 0, 2)))


def _ended(table: TableStats) -> list[str]:
    lines = [f"ended: {table.trained} trained on, {table.finished} finished"]
    lines += [f"dropped {count}: {reason}" for reason, count in table.dropped.items()]
    if table.quarantined:
        lines.append(f"quarantined {table.quarantined}, the newest:")
        lines += [f"  row {uid}: {error}" for uid, error in table.quarantine.items()]
    return lines


def _lease(lease: HeldRows) -> str:
    return f"{lease.holder} holds {lease.rows} rows of {lease.table} for {lease.task}"


def _seconds(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _size(size: float) -> str:
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} {_UNITS[-1]}"
