"""Experiment trackers: where a run's figures go besides its own records."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorboardTracker:
    """Event files in the run's tensorboard/, for `tensorboard --logdir runs`."""

    kind: Literal["tensorboard"] = "tensorboard"


@dataclass(frozen=True, slots=True, kw_only=True)
class WandbTracker:
    """A run of Weights & Biases; who it is for says `WANDB_API_KEY`, or `wandb login`."""

    kind: Literal["wandb"] = "wandb"
    project: str | None = None
    """Where the run goes; null: the graph's name."""
    entity: str | None = None
    """Whose project; null: the key's owner."""
    mode: Literal["online", "offline"] = "online"
    """Offline writes into the run's wandb/, for `wandb sync` later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MlflowTracker:
    """A run of MLflow."""

    kind: Literal["mlflow"] = "mlflow"
    uri: str | None = None
    """Tracking server or store; null: that of `MLFLOW_TRACKING_URI`, or else the run's mlruns/."""
    experiment: str | None = None
    """Where the run goes; null: the graph's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackioTracker:
    """A run of Trackio, on this machine; `trackio show` shows it."""

    kind: Literal["trackio"] = "trackio"
    project: str | None = None
    """Where the run goes; null: the graph's name."""


Tracker = TensorboardTracker | WandbTracker | MlflowTracker | TrackioTracker
