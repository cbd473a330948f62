"""A ZeroMQ socket on the event loop: whole messages in, whole messages out, nothing blocks.

The socket's descriptor is edge-triggered: it must be drained after every wake and looked at after every
send, or a message stays unseen. That is done here, once.
"""

import asyncio
from collections.abc import Callable
from uuid import uuid4

import zmq

BURST = 64
"""Messages taken before other work on the loop gets its turn."""


class Port:
    """Owns a socket; calls `on_message` with the frames of each message."""

    def __init__(self, socket: "zmq.Socket[bytes]", on_message: Callable[[list[bytes]], None]) -> None:
        self._socket = socket
        self._on_message = on_message
        self._loop = asyncio.get_running_loop()
        self._descriptor = int(socket.getsockopt(zmq.FD))
        self._drain_due: asyncio.Handle | None = None
        self._loop.add_reader(self._descriptor, self._drain)
        self._drain_soon()

    @property
    def closed(self) -> bool:
        return self._socket.closed

    def send(self, frames: list[bytes]) -> bool:
        """Sends now; False when the peer is gone or its queue is full."""
        try:
            self._socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise
            return False
        finally:
            if int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
                self._drain_soon()
        return True

    def close(self, *, linger_ms: int) -> None:
        if self._socket.closed:
            return
        self._loop.remove_reader(self._descriptor)
        if self._drain_due is not None:
            self._drain_due.cancel()
        self._socket.close(linger_ms)

    def _drain_soon(self) -> None:
        if self._drain_due is None:
            self._drain_due = self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        if self._drain_due is not None:
            self._drain_due.cancel()
            self._drain_due = None
        for _ in range(BURST):
            if self._socket.closed:
                return
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._on_message(frames)
        self._drain_soon()


def monitor(socket: "zmq.Socket[bytes]", events: int) -> "zmq.Socket[bytes]":
    """The socket that tells of `events`, under a name of its own.

    ZeroMQ's default name holds the descriptor, which a new socket may get before the old name is free.
    """
    return socket.get_monitor_socket(events, f"inproc://monitor-{uuid4().hex}")
