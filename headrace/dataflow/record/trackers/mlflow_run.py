"""A run of MLflow, the same one for every launch of the run: it is found by a tag.

MLflow 3 opens a store of files only where `MLFLOW_ALLOW_FILE_STORE` says so, which is set here unless it is
set already: another store takes packages that nothing else of a run needs.
"""

import os
from collections.abc import Mapping
from typing import Any

from mlflow import MlflowClient  # pyright: ignore[reportMissingImports]
from mlflow.entities import Metric  # pyright: ignore[reportMissingImports]

from headrace.dataflow.record.trackers.base import Home

TAG = "headrace.run"
ALLOW_FILES = "MLFLOW_ALLOW_FILE_STORE"
MOST_AT_ONCE = 1000
"""Metrics that a server takes in one request."""


class MlflowRun:
    def __init__(self, home: Home, options: Mapping[str, Any]) -> None:
        os.environ.setdefault(ALLOW_FILES, "true")
        default = os.environ.get("MLFLOW_TRACKING_URI") or (home.run_dir / "mlruns").as_uri()
        self._client = MlflowClient(tracking_uri=options["uri"] or default)
        self._run = self._found(home, options["experiment"] or home.name)

    def _found(self, home: Home, experiment: str) -> str:
        client = self._client
        known = client.get_experiment_by_name(experiment)
        group = client.create_experiment(experiment) if known is None else known.experiment_id
        runs = client.search_runs([group], f"tags.`{TAG}` = '{home.id}'")
        if runs:
            return runs[0].info.run_id
        return client.create_run(group, tags={TAG: home.id}, run_name=home.title).info.run_id

    def log(self, figures: Mapping[str, float], *, step: int, at: float) -> None:
        metrics = [Metric(name, value, round(at * 1000), step) for name, value in figures.items()]
        for first in range(0, len(metrics), MOST_AT_ONCE):
            self._client.log_batch(self._run, metrics=metrics[first : first + MOST_AT_ONCE])

    def close(self) -> None:
        self._client.set_terminated(self._run)
