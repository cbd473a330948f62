"""Data sets by the `kind` of their options; one file each, imported when it is opened."""

from collections.abc import Callable
from typing import Any

from headrace.services.options import CopyData, HuggingFaceData, JsonlData, ParquetData, ReasoningGymData
from headrace.services.options import Dataset as DatasetOptions
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


def _parquet(options: ParquetData, seed: int) -> Dataset:
    from headrace.services.source.datasets.parquet import ParquetRows

    return ParquetRows(options)


def _hugging_face(options: HuggingFaceData, seed: int) -> Dataset:
    from headrace.services.source.datasets.hugging_face import HuggingFaceRows

    return HuggingFaceRows(options)


DATASETS: dict[str, Callable[[Any, int], Dataset]] = {
    "copy": _copy,
    "reasoning_gym": _reasoning_gym,
    "jsonl": _jsonl,
    "parquet": _parquet,
    "datasets": _hugging_face,
}


def open_dataset(options: DatasetOptions, seed: int) -> Dataset:
    """The data set that `options` describe, its entries drawn from `seed`. Raises DatasetError."""
    return DATASETS[options.kind](options, seed)
