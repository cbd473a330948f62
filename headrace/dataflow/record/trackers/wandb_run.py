"""A run of Weights & Biases, the same one for every launch of the run."""

from collections.abc import Mapping
from typing import Any

import wandb  # pyright: ignore[reportMissingImports]

from headrace.dataflow.record.trackers.base import Home


class WandbRun:
    """Figures stand over `step`, not over W&B's own count, which cannot go back."""

    def __init__(self, home: Home, options: Mapping[str, Any]) -> None:
        self._run = wandb.init(
            project=options["project"] or home.name,
            entity=options["entity"],
            mode=options["mode"],
            dir=str(home.run_dir),
            id=home.id,
            name=home.title,
            config=dict(home.graph),
            resume="allow",
            settings=wandb.Settings(console="off", silent=True, x_disable_stats=True, disable_git=True),
        )
        self._run.define_metric("*", step_metric="step")

    def log(self, figures: Mapping[str, float], *, step: int, at: float) -> None:
        self._run.log({**figures, "step": step})

    def close(self) -> None:
        self._run.finish()
