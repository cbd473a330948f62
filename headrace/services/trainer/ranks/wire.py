"""What the ranks of a trainer tell each other over pipes: calls with samples and options, as msgpack.

Arrays travel as their bytes, a ragged column as its lengths and all its values, an option or a batch as the
dataclass that it is. Invariant: reading makes data alone, of classes that are dataclasses; nothing is run.
"""

import importlib
import struct
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast

import msgpack
import numpy as np

LENGTH = struct.Struct(">Q")
"""Before each message: the bytes that follow."""
KIND = "$"


def pack(message: Mapping[str, Any]) -> bytes:
    """Raises TypeError naming the type of a value that cannot be sent."""
    body = cast(bytes, msgpack.packb(_plain(message)))
    return LENGTH.pack(len(body)) + body


def unpack(body: bytes) -> dict[str, Any]:
    """The message after its length. Arrays are views of `body` and read-only."""
    return _value(msgpack.unpackb(body))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return {KIND: "array", "dtype": _dtype(value), "shape": value.shape, "bytes": value.tobytes()}
    if isinstance(value, Mapping):
        return {KIND: "mapping", "items": [[_plain(key), _plain(item)] for key, item in value.items()]}
    if isinstance(value, Path):
        return {KIND: "path", "path": str(value)}
    if isinstance(value, tuple):
        return {KIND: "tuple", "items": [_plain(item) for item in value]}
    if isinstance(value, list):
        return _ragged(value) if _is_ragged(value) else [_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        held = {member.name: _plain(getattr(value, member.name)) for member in fields(value) if member.init}
        return {KIND: "data", "class": f"{type(value).__module__}:{type(value).__qualname__}", "fields": held}
    raise TypeError(
        f"a {type(value).__module__}.{type(value).__name__} cannot be sent to another rank; allowed are "
        "numbers, text, bytes, numeric arrays, paths, dataclasses, and lists, tuples and mappings of these"
    )


def _is_ragged(values: list[Any]) -> bool:
    return bool(values) and all(
        isinstance(each, np.ndarray) and each.ndim == 1 and each.dtype == values[0].dtype for each in values
    )


def _ragged(values: list[np.ndarray]) -> dict[str, Any]:
    return {
        KIND: "ragged",
        "dtype": _dtype(values[0]),
        "lengths": np.array([len(each) for each in values], dtype=np.int64).tobytes(),
        "bytes": np.concatenate(values).tobytes(),
    }


def _dtype(array: np.ndarray) -> str:
    if array.dtype.hasobject:
        raise TypeError(f"an array of {array.dtype} cannot be sent to another rank; send numbers")
    return array.dtype.str


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    match plain[KIND]:
        case "array":
            return np.frombuffer(plain["bytes"], plain["dtype"]).reshape(plain["shape"])
        case "ragged":
            ends = np.cumsum(np.frombuffer(plain["lengths"], np.int64))
            return np.split(np.frombuffer(plain["bytes"], plain["dtype"]), ends[:-1])
        case "mapping":
            return {_value(key): _value(item) for key, item in plain["items"]}
        case "path":
            return Path(plain["path"])
        case "tuple":
            return tuple(_value(item) for item in plain["items"])
        case _:
            held = {name: _value(item) for name, item in plain["fields"].items()}
            return _class(plain["class"])(**held)


def _class(place: str) -> type:
    module, _, name = place.partition(":")
    found = getattr(importlib.import_module(module), name)
    if not is_dataclass(found):
        raise TypeError(f"{place} is no dataclass; a message holds no other objects")
    return cast(type, found)
