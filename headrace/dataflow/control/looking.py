"""The commands that look at a live run; each asks the control API of its launch."""

import json
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.dataflow.control.asking import LATEST, RunDirectory, control, parts
from headrace.dataflow.record.rundir import RunDirError

if TYPE_CHECKING:
    from headrace.dataflow.control.client import Control

NEW_LINES_S = 0.5
"""Between two looks at a log that is followed."""


def ps(
    run: RunDirectory = LATEST,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the replicas of a live run, its steps, and what waits in its queue."""
    found = control(run).get("/v1/run")
    if as_json:
        typer.echo(json.dumps(found))
    else:
        _print(found)


def top(
    run: RunDirectory = LATEST,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print it once, as without a terminal.")] = False,
) -> None:
    """Watch a live run: as ps, again and again, with its pace, until it ends or Ctrl-C."""
    asked = control(run)
    found = asked.get("/v1/run")
    if once or not sys.stdout.isatty():
        _print(found)
        return
    with suppress(KeyboardInterrupt, RunDirError):
        _watch(asked, found, every)


def logs(
    replica: Annotated[str, typer.Argument(help="e.g. answers/0")],
    run: RunDirectory = LATEST,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=10_000, help="From the end.")] = 100,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until the launch ends or Ctrl-C.")
    ] = False,
) -> None:
    """Print the end of a replica's log."""
    parts(replica)
    asked = control(run)
    text, end = asked.log(replica, lines=lines)
    typer.echo(text, nl=False)
    with suppress(KeyboardInterrupt, RunDirError):
        while follow:
            time.sleep(NEW_LINES_S)
            text, end = asked.log(replica, lines=lines, after=end)
            typer.echo(text, nl=False)


def dashboard(
    run: RunDirectory = LATEST,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in a browser of this machine.")] = False,
) -> None:
    """Print the link to a live run's dashboard; it lets whoever has it in, until the launch ends."""
    from headrace.dataflow.control.client import who
    from headrace.dataflow.control.door import Door

    door = Door.of(run)
    if not open_it:
        typer.echo(door.link(who()))
        return
    import webbrowser

    page = door.page_in(run, who())
    if not webbrowser.open(page.as_uri()):
        typer.echo(f"no browser was found here; open {page}, or the link that `headrace dashboard` prints")


def _watch(asked: "Control", found: dict[str, Any], every_s: float) -> None:
    from rich.live import Live

    from headrace.dataflow.control.ps_text import render

    with Live(render(found), screen=True, auto_refresh=False) as screen:
        while True:
            time.sleep(every_s)
            before, found = found, asked.get("/v1/run")
            screen.update(render(found, pace=pace(before, found, every_s)), refresh=True)


def pace(before: dict[str, Any], now: dict[str, Any], seconds: float) -> dict[str, float]:
    """Steps per minute between two looks, by policy."""
    return {
        policy: 60 * (steps["done"] - before["steps"].get(policy, steps)["done"]) / seconds
        for policy, steps in now["steps"].items()
    }


def _print(found: dict[str, Any]) -> None:
    from rich.console import Console

    from headrace.dataflow.control.ps_text import render

    Console().print(render(found))


COMMANDS = {"ps": ps, "top": top, "logs": logs, "dashboard": dashboard}
