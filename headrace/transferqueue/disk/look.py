"""A durable queue's directory as it stands, dead or live, without asking its controller or changing a file.

The journal is gone through once more, in memory: what is shown is what a restart would bring back.
"""

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.transferqueue.disk.chronicle import rehearse
from headrace.transferqueue.disk.journal import read_journal
from headrace.transferqueue.link.addresses import read_address
from headrace.transferqueue.server.census import table_stats
from headrace.transferqueue.server.hub import Hub
from headrace.transferqueue.stats import TableStats


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRows:
    """A lease; whether its holder is alive is not known here."""

    table: str
    task: str
    holder: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a queue's directory holds."""

    directory: str
    address: str | None
    """Where its controller serves, or did last."""
    idle_s: float
    """Since the newest operation that changed it."""
    tables: dict[str, TableStats]
    """Ages count from now."""
    leases: tuple[HeldRows, ...]
    versions: dict[str, int]
    """Newest published version by policy."""
    segments: int
    segment_bytes: int
    """Disk space that payload takes."""

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON, which has no infinity: a staleness without a bound is None."""
        data = asdict(self)
        for table in data["tables"].values():
            table["staleness"] = table["staleness"] if math.isfinite(table["staleness"]) else None
        return data


def look(directory: Path) -> Look:
    """Raises JournalError where the directory holds no queue, or one that cannot be read."""
    past = read_journal(directory)
    hub = rehearse(past, directory)
    idle_s = max(0.0, time.time() - past.wall_s) if past.wall_s else 0.0
    sizes = [path.stat().st_blocks * 512 for path in directory.glob("*.arrows")]
    return Look(
        directory=str(directory),
        address=read_address(directory),
        idle_s=idle_s,
        tables={name: table_stats(table, hub.now + idle_s) for name, table in hub.tables.items()},
        leases=_leases(hub),
        versions={name: known.newest.version for name, known in hub.policies.items() if known.newest},
        segments=len(sizes),
        segment_bytes=sum(sizes),
    )


def _leases(hub: Hub) -> tuple[HeldRows, ...]:
    return tuple(
        HeldRows(table=name, task=table.spec.tasks[held.task].name, holder=held.holder, rows=len(held.rows))
        for name, table in hub.tables.items()
        for held in table.leases
    )
