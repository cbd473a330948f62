"""What `headrace ps` prints."""

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text


def render(found: Mapping[str, Any], *, now: float | None = None) -> RenderableType:
    """`found`: what GET /v1/run answered; `now`: Unix seconds."""
    at = time.time() if now is None else now
    steps = ", ".join(f"{policy} {each['done']}/{each['of']}" for policy, each in found["steps"].items())
    return Group(
        Text(f"{found['name']}  steps: {steps}", style="bold"),
        _replicas(found["replicas"], at),
        _tables(found["tables"]),
    )


def _replicas(standings: list[Mapping[str, Any]], now: float) -> Table:
    table = Table("replica", "state", "for", "pid", "restarts", "busy", "waits for", "last error", box=None)
    for each in standings:
        shares = each["shares"] or {}
        table.add_row(
            each["replica"],
            each["state"],
            f"{max(now - each['since'], 0):.0f} s",
            str(each["pid"] or ""),
            str(each["restarts"]),
            f"{shares['busy']:.0%}" if shares else "",
            f"data {shares['idle_wait_data']:.0%}, weights {shares['idle_wait_weights']:.0%}"
            if shares
            else "",
            each["error"],
        )
    return table


def _tables(tables: Mapping[str, Mapping[str, Any]]) -> Table:
    shown = Table("table", "staleness", "task", "waiting", "ready", "leased", "oldest row", box=None)
    for name, table in tables.items():
        for task, rows in table["tasks"].items():
            shown.add_row(
                name,
                str(table["staleness"]),
                task,
                str(rows["waiting"]),
                str(rows["ready"]),
                str(rows["leased"]),
                f"{table['oldest_age_s']:.1f} s",
            )
    return shown
