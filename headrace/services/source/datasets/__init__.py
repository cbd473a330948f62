"""Data sets by the `kind` of their options; one file each, imported when it is opened."""

from collections.abc import Callable
from typing import Any

from headrace.services.options import CopyData, JsonlData, ReasoningGymData
from headrace.services.source.datasets.base import Dataset, Example, Labels

__all__ = ["DATASETS", "Dataset", "Example", "Labels", "open_dataset"]


def _copy(options: CopyData, seed: int) -> Dataset:
    from headrace.services.source.datasets.copy import CopyWords

    return CopyWords(options, seed)


def _reasoning_gym(options: ReasoningGymData, seed: int) -> Dataset:
    from headrace.services.source.datasets.reasoning_gym import ReasoningGymTasks

    return ReasoningGymTasks(options, seed)


def _jsonl(options: JsonlData, seed: int) -> Dataset:
    from headrace.services.source.datasets.jsonl import JsonlFile

    return JsonlFile(options)


DATASETS: dict[str, Callable[[Any, int], Dataset]] = {
    "copy": _copy,
    "reasoning_gym": _reasoning_gym,
    "jsonl": _jsonl,
}


def open_dataset(options: CopyData | ReasoningGymData | JsonlData, seed: int) -> Dataset:
    """The data set that `options` describe, its entries drawn from `seed`. Raises DatasetError."""
    return DATASETS[options.kind](options, seed)
