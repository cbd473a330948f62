"""A run of Trackio, the same one for every launch of the run, in its folder on this machine."""

from collections.abc import Mapping
from typing import Any

import trackio  # pyright: ignore[reportMissingImports]

from headrace.dataflow.record.trackers.base import Home


class TrackioRun:
    def __init__(self, home: Home, options: Mapping[str, Any]) -> None:
        self._run = trackio.init(
            project=options["project"] or home.name,
            name=f"{home.title}-{home.id[:6]}",
            config=dict(home.graph),
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )

    def log(self, figures: Mapping[str, float], *, step: int, at: float) -> None:
        self._run.log(dict(figures), step=step)

    def close(self) -> None:
        self._run.finish()
