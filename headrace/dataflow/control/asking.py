"""What the commands of a live run have in common."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headrace.dataflow.control.client import Control

RunDirectory = Annotated[Path, typer.Option("--run", help="The run's directory.")]
Why = Annotated[str, typer.Option(help="What is written beside it in events.jsonl.")]
LATEST = Path("runs/latest")


def control(run: Path) -> "Control":
    """Raises RunDirError where no launch of the run goes on."""
    from headrace.dataflow.control.client import Control

    return Control(run)


def parts(replica: str) -> tuple[str, str]:
    """Node and index of "answers/0"."""
    node, _, index = replica.rpartition("/")
    if not (node and index.isdecimal()):
        raise typer.BadParameter(f"got {replica!r}; name a replica, as answers/0; `headrace ps` lists them")
    return node, index
