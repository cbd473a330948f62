"""An update schedule of the user's own, by the path of its class."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from headrace.algorithms.bounds import Count
from headrace.algorithms.by_path import ClassPath, find
from headrace.algorithms.checked import Checked


@dataclass(frozen=True, kw_only=True)
class PythonUpdate(Checked):
    """A class with `plan` as `headrace.algorithms.updates.base.UpdateSchedule` has it."""

    streams: ClassVar[bool] = False
    kind: Literal["python"] = "python"
    path: ClassPath
    """Where it is: `module:Class`, or `path/to/file.py:Class`."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the class."""
    updates_per_batch: Count
    """Optimizer steps that its `plan` gives for a batch; the file is not run before the launch."""

    def plan(self, batch: int, groups: np.ndarray, *, seed: int) -> Sequence[np.ndarray]:
        """Raises ValueError for another number of optimizer steps than was declared."""
        steps = self._schedule.plan(batch, groups, seed=seed)
        if len(steps) != self.updates_per_batch:
            raise ValueError(
                f"update.path: {self.path} planned {len(steps)} optimizer steps of batch {batch}; "
                f"updates_per_batch says {self.updates_per_batch}: write the same in both"
            )
        return steps

    @cached_property
    def _schedule(self) -> Any:
        return find(self.path, key="update.path", what="class")(**self.options)
