"""The commands that look at what runs left behind; what takes time to import is imported by each."""

import json
from pathlib import Path
from typing import Annotated

import typer

LATEST = Path("runs/latest")
Directory = Annotated[Path, typer.Argument(help="A run directory.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def trace(
    directory: Directory = LATEST,
    output: Annotated[Path | None, typer.Option(help="The file; by default trace.json of the run.")] = None,
    samples: Annotated[int, typer.Option(min=0, help="The newest that the file has.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Say where the time of every sample and replica went, and write it for Perfetto or chrome://tracing."""
    from headrace.dataflow.record.tracing.traced import render, traced

    found = traced(directory, output, most=samples)
    if as_json:
        typer.echo(json.dumps(found.to_json()))
        return
    from rich.console import Console

    Console().print(render(found))


def compare(
    directories: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories.")],
    output: Annotated[Path, typer.Option(help="The page.")] = Path("compare.html"),
    as_json: AsJson = False,
) -> None:
    """Compare runs: settings that differ, figures, curves; runs that differ in the seed are a group."""
    from headrace.dataflow.record.compare.comparison import compared
    from headrace.dataflow.record.compare.page import page, render
    from headrace.dataflow.record.compare.runs import read

    found = compared(read(directories))
    if as_json:
        typer.echo(json.dumps(found.to_json()))
        return
    output.write_text(page(found), encoding="utf-8")
    from rich.console import Console

    console = Console()
    console.print(render(found))
    console.print(str(output), style="dim", highlight=False, soft_wrap=True)


COMMANDS = {"trace": trace, "compare": compare}
