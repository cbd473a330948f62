"""Messages as bytes: msgpack, bounded in size, checked field by field as they are read.

A request is [id, oldest pending id, operation, arguments]; a reply is [id, error name or "", body]. Ids of
rows travel packed as int64. Bytes that are anything else raise WireError and do nothing.
"""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgpack
import numpy as np

from headrace.transferqueue.errors import BY_NAME, QueueError, SchemaError, WireError

MAX_MESSAGE_BYTES = 64 << 20
_ARRAY = 1
_NUMERIC = frozenset("biuf")


class Request(NamedTuple):
    """One operation asked for; `since` is the oldest request that its client still waits for."""

    id: int
    since: int
    operation: str
    arguments: "Arguments"


class Arguments:
    """The fields of a request, each taken by its type; WireError where it is missing or another."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    @property
    def fields(self) -> Mapping[str, Any]:
        return self._fields

    def has(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def text(self, name: str) -> str:
        return self._take(name, str)

    def integer(self, name: str) -> int:
        return self._take(name, int)

    def boolean(self, name: str) -> bool:
        return self._take(name, bool)

    def binary(self, name: str) -> bytes:
        return self._take(name, bytes)

    def number(self, name: str) -> float:
        value = self._fields.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
            raise WireError(f"field {name!r} is not a number")
        return float(value)

    def mapping(self, name: str) -> dict[str, Any]:
        return self._take(name, dict)

    def sequence(self, name: str) -> list[Any]:
        return self._take(name, list)

    def uids(self, name: str) -> list[int]:
        return unpack_ints(self.binary(name))

    def some_uids(self, name: str) -> list[int] | None:
        """None: the field is not there."""
        return None if self._fields.get(name) is None else self.uids(name)

    def _take(self, name: str, kind: type[Any]) -> Any:
        value = self._fields.get(name)
        if type(value) is not kind:
            raise WireError(f"field {name!r} is {type(value).__name__}; {kind.__name__} is due")
        return value


def pack(value: Any) -> bytes:
    """Plain data, and NumPy arrays and scalars of numbers; WireError on anything else."""
    try:
        packed = msgpack.packb(value, default=_to_plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise WireError(f"cannot be sent: {error}") from error
    assert packed is not None
    return packed


def unpack(data: bytes) -> Any:
    """What `pack` packed; WireError on bytes that are not, or are too many."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise WireError(f"{len(data)} bytes; at most {MAX_MESSAGE_BYTES} are taken")
    try:
        return msgpack.unpackb(data, ext_hook=_from_ext, strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise WireError(f"not a message: {error}") from error


def unpack_all(data: bytes) -> Iterator[Any]:
    """Values that were packed one after another; WireError on bytes that are not."""
    unpacker = msgpack.Unpacker(ext_hook=_from_ext, strict_map_key=False, max_buffer_size=0)
    unpacker.feed(data)
    try:
        yield from unpacker
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise WireError(f"not a message: {error}") from error


def pack_ints(values: Iterable[int] | np.ndarray) -> bytes:
    """int64, little-endian; WireError on what is no integer."""
    if not isinstance(values, np.ndarray):
        try:
            return array("q", values).tobytes()
        except (TypeError, OverflowError) as error:
            raise WireError(f"row ids are not int64: {error}") from error
    if values.size and (values.dtype.kind not in "iu" or values.ndim != 1):
        raise WireError(f"row ids are {values.dtype} of shape {values.shape}; int64 [n] is due")
    return values.astype("<i8").tobytes()


def pack_uids(uids: Sequence[int] | np.ndarray | None) -> bytes | None:
    """int64, little-endian; None stays None. SchemaError where they are no integers."""
    if uids is None:
        return None
    array = np.asarray(uids)
    if array.size and array.dtype.kind not in "iu":
        raise SchemaError(f"uids are {array.dtype}; int64 [n] is due")
    return pack_ints(array.astype(np.int64))


def unpack_ints(data: bytes) -> list[int]:
    if len(data) % 8:
        raise WireError(f"{len(data)} bytes are no int64 array")
    return array("q", data).tolist()


def read_ints(data: bytes) -> np.ndarray:
    """int64 [n], an array of its own."""
    if len(data) % 8:
        raise WireError(f"{len(data)} bytes are no int64 array")
    return np.frombuffer(data, "<i8").astype(np.int64)


def pack_floats(values: np.ndarray) -> bytes:
    """float64, little-endian."""
    return values.astype("<f8").tobytes()


def unpack_floats(data: Any) -> list[float]:
    """WireError unless they are bytes of float64, none of them NaN."""
    if not isinstance(data, bytes) or len(data) % 8:
        raise WireError("figures are no float64 array")
    values = np.frombuffer(data, "<f8")
    if np.isnan(values).any():
        raise WireError("a figure by which rows are ordered is NaN; it must be a number")
    return values.tolist()


def read_request(data: bytes) -> Request:
    """WireError unless it is a well-formed request."""
    match unpack(data):
        case [int(number), int(since), str(operation), dict(fields)]:
            return Request(number, since, operation, Arguments(fields))
    raise WireError("not a request: [id, since, operation, arguments] is due")


def write_request(number: int, since: int, operation: str, fields: Mapping[str, Any]) -> bytes:
    data = pack([number, since, operation, fields])
    if len(data) > MAX_MESSAGE_BYTES:
        raise WireError(
            f"{operation} takes {len(data)} bytes; at most {MAX_MESSAGE_BYTES}: name fewer rows at once"
        )
    return data


def write_reply(number: int, body: Any) -> bytes:
    return pack([number, "", body])


def write_error(number: int, error: QueueError) -> bytes:
    return pack([number, type(error).__name__, str(error)])


def read_reply(data: bytes) -> tuple[int, Any | QueueError]:
    """The request's id and the body, or the error to raise."""
    match unpack(data):
        case [int(number), "", body]:
            return number, body
        case [int(number), str(name), str(message)]:
            return number, BY_NAME.get(name, QueueError)(message)
    raise WireError("not a reply: [id, error, body] is due")


def _to_plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in _NUMERIC:
        header = [value.dtype.str, list(value.shape)]
        return msgpack.ExtType(_ARRAY, msgpack.packb([*header, np.ascontiguousarray(value).tobytes()]))
    if isinstance(value, np.generic) and value.dtype.kind in _NUMERIC:
        return value.item()
    raise TypeError(f"{type(value).__name__} is not plain data")


def _from_ext(code: int, data: bytes) -> Any:
    match msgpack.unpackb(data) if code == _ARRAY else None:
        case [str(dtype), list(shape), bytes(body)]:
            kind = np.dtype(dtype)
            if kind.kind in _NUMERIC:
                return np.frombuffer(body, kind).reshape(shape)
    raise ValueError(f"extension {code} is not known")
