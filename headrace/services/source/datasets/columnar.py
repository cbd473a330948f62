"""What data sets of columns have in common: which of them are read, and rows as plain entries."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from headrace.services.options import HuggingFaceData, ParquetData
from headrace.services.source.datasets.base import DatasetError, Example
from headrace.services.source.datasets.entries import check_plain, example_of

Columnar = ParquetData | HuggingFaceData


def wanted(options: Columnar, there: Collection[str]) -> list[str]:
    """Columns to read: the prompt's and those that go to the verifier. Raises DatasetError."""
    for name in (options.prompt_key, *options.columns):
        if name not in there:
            key = "prompt_key" if name == options.prompt_key else "columns"
            raise DatasetError(
                f"{options.kind}: {options.path} has no column `{name}`; set dataset.{key} to one of "
                f"{', '.join(there)}"
            )
    return list(dict.fromkeys((options.prompt_key, *options.columns))) if options.columns else list(there)


def row_example(row: Mapping[str, Any], options: Columnar, where: str) -> Example:
    """Raises DatasetError."""
    prompt = row[options.prompt_key]
    entry = {**row, options.prompt_key: _messages(prompt) if isinstance(prompt, list) else prompt}
    made = example_of(entry, options, where)
    check_plain(made.example, where)
    return made


def check_rows(rows: Iterable[Mapping[str, Any]], options: Columnar) -> None:
    """Raises DatasetError naming the first row that cannot be used, or where there is none."""
    index = -1
    for index, row in enumerate(rows):
        row_example(row, options, where(options, index))
    if index < 0:
        raise DatasetError(f"{options.kind}: {options.path} has no rows; each row is a prompt")


def where(options: Columnar, index: int) -> str:
    return f"{options.path}, row {index}"


def _messages(prompt: list[Any]) -> list[Any]:
    """Messages without the fields that a column has for others of them, which are null."""
    return [
        {key: value for key, value in each.items() if value is not None or key in ("role", "content")}
        if isinstance(each, Mapping)
        else each
        for each in prompt
    ]
