"""The process of one tracker: opens it as the first line of its input says, then hands it a point a line.

Ends when its input does, and writes a byte to its output for each point that the tracker has taken. What the
tracker starts, which may outlive it, has neither of the two; whatever is printed goes to the log. Interrupts
are the launcher's business. An error ends it, as the log's last line.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from headrace.dataflow.record.trackers.base import Home, Tracker
from headrace.services.pipes import take_pipes


def serve(lines: Iterable[str], took: Callable[[], object]) -> None:
    """Raises whatever the tracker raises. `took`: called for each point that it has."""
    rest = iter(lines)
    tracker = open_tracker(json.loads(next(rest)))
    try:
        for line in rest:
            point = json.loads(line)
            tracker.log(point["figures"], step=point["step"], at=point["at"])
            took()
    finally:
        tracker.close()


def open_tracker(opening: dict[str, Any]) -> Tracker:
    """`opening`: the options of the tracker under `tracker`, and the fields of its Home."""
    options, home = (
        opening["tracker"],
        Home(**{**opening["home"], "run_dir": Path(opening["home"]["run_dir"])}),
    )
    match options["kind"]:
        case "tensorboard":
            from headrace.dataflow.record.trackers.event_files import EventFiles

            return EventFiles(home)
        case "wandb":
            from headrace.dataflow.record.trackers.wandb_run import WandbRun

            return WandbRun(home, options)
        case "mlflow":
            from headrace.dataflow.record.trackers.mlflow_run import MlflowRun

            return MlflowRun(home, options)
        case "trackio":
            from headrace.dataflow.record.trackers.trackio_run import TrackioRun

            return TrackioRun(home, options)
        case kind:
            raise ValueError(f"there is no tracker {kind!r}; there are tensorboard, wandb, mlflow, trackio")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    told, counts = take_pipes()
    try:
        serve(TextIOWrapper(told, encoding="utf-8"), partial(os.write, counts.fileno(), b"."))
    except Exception as error:
        traceback.print_exc()
        sys.exit(f"{type(error).__name__}: {error}".replace("\n", " "))
