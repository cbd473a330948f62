"""Sockets that notice when the other end is gone without a word, and make their line anew.

A peer that vanishes (its packets are dropped, its machine hangs) closes nothing: without heartbeats TCP goes
on believing in it for minutes. ZeroMQ's own thread sends and answers them, so a process that computes is not
taken for a dead one; a line that was cut for no good reason is made again and nothing is lost by it.
"""

from typing import Any

import zmq

from headrace.transferqueue.errors import Refused

HEARTBEAT_MS = 1000
"""Between two signs of life on an idle line."""
SILENT_MS = 3000
"""A line on which nothing came for so long is dead; so is a handshake that takes longer."""
CONNECT_MS = 1000
"""An attempt to connect; TCP alone would wait longer from one to the next."""
RECONNECT_MS = 50
"""Between two of them."""


def bind(socket: "zmq.Socket[Any]", address: str, *, who: str) -> str:
    """Where the socket serves now, with its real port; Refused, and the socket closed, where it cannot."""
    try:
        socket.bind(address)
    except zmq.ZMQError as error:
        socket.close(0)
        raise Refused(f"{who} cannot bind {address}: {error}") from error
    return bytes(socket.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()


def open_socket(
    context: "zmq.Context[Any]", kind: int, *, max_bytes: int, options: dict[int, int | bytes]
) -> "zmq.Socket[Any]":
    """A socket for messages of at most `max_bytes`; `options`: see `keys.py`."""
    socket = context.socket(kind)
    vigilance = {
        zmq.HEARTBEAT_IVL: HEARTBEAT_MS,
        zmq.HEARTBEAT_TIMEOUT: SILENT_MS,
        zmq.HEARTBEAT_TTL: SILENT_MS,
        zmq.HANDSHAKE_IVL: SILENT_MS,
        zmq.CONNECT_TIMEOUT: CONNECT_MS,
        zmq.RECONNECT_IVL: RECONNECT_MS,
        zmq.MAXMSGSIZE: max_bytes,
    }
    for option, value in {**vigilance, **options}.items():
        socket.setsockopt(option, value)
    return socket
