"""Messages between an isolated process and its owner: a length of 4 bytes, big-endian, and a msgpack map."""

import struct
from typing import Any, cast

import msgpack

LENGTH = struct.Struct(">I")
MAX_BYTES = 64 << 20


def pack(message: dict[str, Any]) -> bytes:
    """Raises ValueError where the message is longer than MAX_BYTES."""
    body = cast(bytes, msgpack.packb(message))
    _check(len(body))
    return LENGTH.pack(len(body)) + body


def body_length(head: bytes) -> int:
    """Bytes to read after the 4 of `head`. Raises ValueError beyond MAX_BYTES."""
    (length,) = LENGTH.unpack(head)
    _check(length)
    return length


def unpack(body: bytes) -> dict[str, Any]:
    return msgpack.unpackb(body)


def _check(length: int) -> None:
    if length > MAX_BYTES:
        raise ValueError(f"a message has {length} bytes; at most {MAX_BYTES} are allowed")
