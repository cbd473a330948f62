"""What `headrace ps` prints."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

NO_PACE: Mapping[str, float] = {}
STILL_S = 5.0
"""Below which a replica that makes nothing is not worth a word."""


def render(
    found: Mapping[str, Any], *, now: float | None = None, pace: Mapping[str, float] = NO_PACE
) -> RenderableType:
    """`found`: what GET /v1/run answered; `now`: Unix seconds; `pace`: steps per minute, by policy."""
    at = time.time() if now is None else now
    steps = ", ".join(
        f"{policy} {each['done']}/{each['of']}"
        + (f" at {pace[policy]:.1f} a minute" if policy in pace else "")
        for policy, each in found["steps"].items()
    )
    return Group(
        Text(f"{found['name']}  steps: {steps}", style="bold"),
        *_standing(found, at),
        _replicas(found["replicas"], at),
        _waits(found["replicas"]),
        _tables(found["tables"]),
    )


def _standing(found: Mapping[str, Any], now: float) -> Iterator[Text]:
    """That the run is paused, and what is being changed."""
    if (paused := found["paused"]) is not None:
        why = f": {paused['why']}" if paused["why"] else ""
        yield Text(f"paused for {now - paused['since']:.0f} s by {paused['who']}{why}", style="yellow")
    for each in found["short"]:
        who, how_long = each["holder"] or "the queue", f"{now - each['since']:.0f} s"
        yield Text(
            f"{who} waits for room, for {how_long}: make {each['needed_bytes']} bytes of it in "
            f"{each['directory']} ({each['reason']})",
            style="red",
        )
    for each in found["changes"]:
        why = f": {each['why']}" if each["why"] else ""
        what = f"{each['action']} of {each['node']}, for {now - each['since']:.0f} s"
        yield Text(f"under way: {what}, asked by {each['who']}{why}", style="yellow")


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
            _said(each["error"]),
        )
    return table


def _waits(replicas: list[Mapping[str, Any]]) -> Table:
    """What each replica does or waits for; every wait with what is missing, who owes it, and its deadline."""
    table = Table("replica", "is at", "for", "until", box=None)
    for each in replicas:
        if each["doing"]:
            still = f"{each['still_s']:.0f} s without movement" if each["still_s"] >= STILL_S else ""
            table.add_row(each["replica"], _said(each["doing"]), still, "")
        for wait in each["waits"]:
            limits = f"{wait['since_s']:.0f} s", f"in {wait['left_s']:.0f} s"
            table.add_row(each["replica"], _said(f"waits: {wait['why']}"), *limits)
    return table


def _said(text: str) -> Text:
    """As a replica said it, which a model's answer may have part in: no markup, nothing for the terminal."""
    return Text("".join(each if each.isprintable() or each == "\n" else "\ufffd" for each in text))


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
