"""`headrace doctor`: how this machine is, and one run on it; exit code 1 where something is bad."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from headrace.dataflow.doctor.findings import Finding

BAD = 1
STYLES = {"well": "green", "poor": "yellow", "bad": "red"}


def doctor(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN]", help="A run directory; without it, of the machine alone."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what is not well on this machine, or with a run, and the way out of it; nothing is changed."""
    from headrace.dataflow.doctor.leftovers import left_behind
    from headrace.dataflow.doctor.machine import examined

    found = [*examined(Path("runs")), *left_behind()]
    if directory is not None:
        from headrace.dataflow.doctor.run import looked_into

        found += looked_into(directory)
    if as_json:
        typer.echo(json.dumps({"findings": [each.to_json() for each in found]}))
    else:
        from rich.console import Console

        Console().print(_table(found))
    if any(each.health == "bad" for each in found):
        raise typer.Exit(BAD)


def _table(found: "list[Finding]") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table("", "", "way out", box=None)
    for each in found:
        table.add_row(Text(each.subject, style=STYLES[each.health]), Text(each.says), Text(each.way_out))
    return table


COMMANDS = {"doctor": doctor}
