"""Paths that end as real ones may: `bench.gpu_check.path.Tried`s."""

import os
import signal
from pathlib import Path

from bench.gpu_check.path import Figures, Skip, at_most


def holds(gpus: float) -> Figures:
    return {"gpus": gpus}


def is_off(gpus: float) -> Figures:
    return {"difference": at_most("difference of losses", 0.5 + gpus, 0.25)}


def says_what_it_needs(gpus: float) -> Figures:
    raise Skip(f"no second card beside {gpus:g}")


def crashes(gpus: float) -> Figures:
    print("illegal memory access", flush=True)
    os._exit(int(3 + gpus))


def hangs_with_a_child(gpus: float) -> Figures:
    """Its child outlives it unless the whole session is ended."""
    if (child := os.fork()) == 0:
        signal.pause()
    Path(os.environ["CHILD"]).write_text(str(child))
    signal.pause()
    return {"gpus": gpus}
