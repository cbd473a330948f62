"""Plain JSON for values that JSON has no words for, without loss: `from_jsonable(to_jsonable(x)) == x`.

Tuples become `{"$tuple": [...]}`, dicts with other keys than plain text `{"$dict": [[key, value], ...]}`,
NumPy scalars the Python number or text they equal. Anything else is refused, naming where it stands.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def to_jsonable(value: Any, *, where: str = "value") -> Any:
    """Raises TypeError naming the place (`where`, then keys and indices) of what cannot come back equal."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise TypeError(f"{where} is {value}, which JSON has no number for; leave it out or give it as text")
    if isinstance(value, (list, tuple)):
        items = [to_jsonable(item, where=f"{where}[{i}]") for i, item in enumerate(value)]
        return items if isinstance(value, list) else {"$tuple": items}
    if isinstance(value, Mapping):
        return _mapping(value, where)
    raise TypeError(
        f"{where} is a {type(value).__module__}.{type(value).__name__}, which JSON cannot bring back;"
        " allowed are None, bool, int, float, str, and lists, tuples and dicts of these"
    )


def _mapping(value: Mapping[Any, Any], where: str) -> dict[str, Any]:
    if all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {str(key): to_jsonable(item, where=f"{where}.{key}") for key, item in value.items()}
    pairs = [
        [to_jsonable(key, where=f"a key of {where}"), to_jsonable(item, where=f"{where}.{key}")]
        for key, item in value.items()
    ]
    return {"$dict": pairs}


def from_jsonable(value: Any) -> Any:
    """The inverse of `to_jsonable`."""
    if isinstance(value, list):
        return [from_jsonable(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"$tuple"}:
        return tuple(from_jsonable(item) for item in value["$tuple"])
    if value.keys() == {"$dict"}:
        return {from_jsonable(key): from_jsonable(item) for key, item in value["$dict"]}
    return {key: from_jsonable(item) for key, item in value.items()}
