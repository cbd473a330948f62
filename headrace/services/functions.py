"""Functions of a user's own that are called with a row's columns by name.

Numbers, texts and decoded JSON come as Python values, lists of numbers as NumPy arrays that cannot be written
to. A function that would not take what it is called with is refused when it is loaded.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.algorithms.by_path import find
from headrace.transferqueue import Rows


def load(path: str, columns: Sequence[str]) -> Callable[..., Any]:
    """The function at `path`.

    Raises ValueError where there is none or it does not take `columns` as keywords, ImportError where its
    module does not import.
    """
    function = find(path, key="function", what="function")
    try:
        inspect.signature(function).bind(**dict.fromkeys(columns))
    except TypeError as error:
        raise ValueError(
            f"{path} cannot be called with {', '.join(columns) or 'no columns'}: {error}; give it these as "
            "keyword arguments, or change `columns`"
        ) from error
    return function


def cells(rows: Rows, column: str) -> list[Any]:
    """What a function is called with for each row."""
    values = rows[column]
    return values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else list(values)
