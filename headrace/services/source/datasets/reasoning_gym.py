"""Procedural tasks of the `reasoning-gym` package, as chat messages.

The verifier gets the task's name, its configuration and the whole entry, written without loss by `jsonable`.
"""

from typing import Any

from headrace.services.jsonable import to_jsonable
from headrace.services.options import ReasoningGymData
from headrace.services.source.datasets.base import DatasetError, Example


class ReasoningGymTasks:
    def __init__(self, options: ReasoningGymData, seed: int) -> None:
        self._options = options
        self._tasks = _create(options, seed)
        self._config = to_jsonable(options.config, where="dataset.config")

    def __len__(self) -> int:
        return self._options.size

    def __getitem__(self, index: int) -> Example:
        entry = self._tasks[index]
        where = f"reasoning_gym {self._options.task}, entry {index}"
        try:
            plain = to_jsonable(entry, where="entry")
        except TypeError as error:
            raise DatasetError(f"{where}: {error}") from error
        messages = [{"role": "user", "content": entry["question"]}]
        if self._options.system_prompt is not None:
            messages.insert(0, {"role": "system", "content": self._options.system_prompt})
        example = {"task": self._options.task, "config": self._config, "entry": plain}
        return Example(prompt=messages, example=example)


def _create(options: ReasoningGymData, seed: int) -> Any:
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        raise DatasetError(
            "dataset reasoning_gym needs a package that is not installed: pip install reasoning-gym"
        ) from error
    if options.task not in DATASETS:
        known = ", ".join(sorted(DATASETS))
        raise DatasetError(f"reasoning_gym has no task {options.task!r}; it has {known}")
    try:
        return reasoning_gym.create_dataset(options.task, size=options.size, seed=seed, **options.config)
    except (TypeError, ValueError, AssertionError) as error:
        raise DatasetError(
            f"reasoning_gym {options.task} refuses its configuration {options.config}: {error}"
        ) from error
