"""What is done with rows on their way: dropped, shaped, kept in files."""

from dataclasses import dataclass
from typing import Literal

from headrace.algorithms.bounds import Count
from headrace.algorithms.by_path import FolderPath, FunctionPath
from headrace.services.options.placed import Placed
from headrace.transferqueue.schema import Dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilterOptions(Placed):
    """Lets rows pass or drops them, by a function of yours; who reads from it sees those that passed."""

    function: FunctionPath
    """Where it is; called with columns by name, in a process of its own, it returns True to let the row pass,
    or False or the reason, a few words, to drop it."""
    columns: tuple[str, ...] = ("prompt", "response")
    """What it is called with, each a keyword argument: columns, or the texts `prompt` and `response`; a
    missing number is null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformOptions:
    """New columns by a pure function of others; no service of its own: it runs in those that read from it."""

    function: FunctionPath
    """Where it is; called with a row's columns by name, it returns a mapping with the columns of `writes`.
    Each reader calls it for itself, so what it returns may depend on its arguments alone."""
    columns: tuple[str, ...]
    """Columns that it is called with, each a keyword argument; lists of numbers are NumPy arrays."""
    writes: dict[str, Dtype]
    """Columns that it gives, with their types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions(Placed):
    """Keeps rows in files, each row once."""

    format: Literal["jsonl", "parquet"] = "jsonl"
    """Of the files."""
    columns: tuple[str, ...] = ()
    """What is kept: columns, or the texts `prompt` and `response`; none: the texts and every column that its
    inputs write."""
    directory: FolderPath | None = None
    """Folder of the files, for this node of this run alone; None: `sinks/<node>` of the run's directory."""
    rows_per_file: Count = 4096
    """Rows after which the next file begins. A file that is there is whole; the last is made at the end."""
