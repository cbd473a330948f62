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


COMMANDS = {"trace": trace}
