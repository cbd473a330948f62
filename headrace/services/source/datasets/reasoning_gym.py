"""Procedural tasks of the `reasoning-gym` package, as chat messages.

The verifier gets the task's name, its configuration and the whole entry, written without loss by `jsonable`.
"""

from typing import Any

from headrace.services.jsonable import to_jsonable
from headrace.services.options import ReasoningGymData
from headrace.services.source.datasets.base import DatasetError, Example, Labels, in_turn


class ReasoningGymTasks:
    """Entry i is entry i // K of task i modulo K, of the K tasks named."""

    def __init__(self, options: ReasoningGymData, seed: int) -> None:
        self._options = options
        if not options.tasks:
            raise DatasetError("reasoning_gym: dataset.task is an empty list; name at least one task")
        each = -(-options.size // len(options.tasks))
        self._tasks = [_create(name, options.config_of(name), size=each, seed=seed) for name in options.tasks]
        self._configs = [
            to_jsonable(options.config_of(name), where="dataset.config") for name in options.tasks
        ]

    def __len__(self) -> int:
        return self._options.size

    def __getitem__(self, index: int) -> Example:
        place, domain = divmod(index, len(self._tasks))
        name, entry = self._options.tasks[domain], self._tasks[domain][place]
        try:
            plain = to_jsonable(entry, where="entry")
        except TypeError as error:
            raise DatasetError(f"reasoning_gym {name}, entry {index}: {error}") from error
        messages = [{"role": "user", "content": entry["question"]}]
        if self._options.system_prompt is not None:
            messages.insert(0, {"role": "system", "content": self._options.system_prompt})
        return Example(
            prompt=messages, example={"task": name, "config": self._configs[domain], "entry": plain}
        )

    def labels(self) -> Labels:
        return in_turn(self._options.tasks, len(self))


def _create(task: str, config: dict[str, Any], *, size: int, seed: int) -> Any:
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        raise DatasetError(
            "dataset reasoning_gym needs a package that is not installed: pip install reasoning-gym"
        ) from error
    if task not in DATASETS:
        known = ", ".join(sorted(DATASETS))
        raise DatasetError(f"reasoning_gym has no task {task!r}; it has {known}")
    try:
        return reasoning_gym.create_dataset(task, size=size, seed=seed, **config)
    except (TypeError, ValueError, AssertionError) as error:
        raise DatasetError(f"reasoning_gym {task} refuses its configuration {config}: {error}") from error
