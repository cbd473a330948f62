"""A ZeroMQ socket on the event loop: whole messages in, whole messages out, nothing blocks.

The socket's descriptor is edge-triggered: its events must be looked at after every wake and after every send,
or a message stays unseen. That is done here, once.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

import zmq

BURST = 64
"""Messages taken before other work on the loop gets its turn."""
_UNBIND_S = 1.0
"""For ZeroMQ to let go of an address."""
_NOW, _MORE = int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE)
_READABLE = int(zmq.POLLIN)
"""Plain integers: the operators of an enum cost as much as the calls that they go into."""


class Port:
    """Owns a socket; calls `on_message` with the frames of each message."""

    def __init__(self, socket: "zmq.Socket[bytes]", on_message: Callable[[list[bytes]], None]) -> None:
        self._socket = socket
        self._on_message = on_message
        self._loop = asyncio.get_running_loop()
        self._descriptor = int(socket.getsockopt(zmq.FD))
        self._draining = False
        self._drain_due: asyncio.Handle | None = None
        self._loop.add_reader(self._descriptor, self._drain)
        self._drain_soon()

    @property
    def closed(self) -> bool:
        return self._socket.closed

    def send(self, frames: list[bytes]) -> bool:
        """Sends now; False when the peer is gone or its queue is full."""
        try:
            for frame in frames[:-1]:
                self._socket.send(frame, _MORE)
            self._socket.send(frames[-1], _NOW)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise
            return False
        finally:
            if not self._draining and self._is_readable():
                self._drain_soon()
        return True

    async def unbind(self, address: str) -> None:
        """Ends listening at a tcp address, which is free on return: ZeroMQ closes it in a thread of its own.

        A monitor of the socket must have been closed before. Nothing happens where the socket is closed.
        """
        if self._socket.closed:
            return
        gone = asyncio.Event()
        watching = Port(monitor(self._socket, zmq.EVENT_CLOSED), lambda frames: gone.set())
        try:
            self._socket.unbind(address)
            with suppress(TimeoutError):
                async with asyncio.timeout(_UNBIND_S):
                    await gone.wait()
        finally:
            watching.close(linger_ms=0)

    def close(self, *, linger_ms: int) -> None:
        if self._socket.closed:
            return
        self._loop.remove_reader(self._descriptor)
        if self._drain_due is not None:
            self._drain_due.cancel()
        self._socket.close(linger_ms)

    def _is_readable(self) -> bool:
        return bool(int(self._socket.get(zmq.EVENTS)) & _READABLE)

    def _drain_soon(self) -> None:
        if self._drain_due is None:
            self._drain_due = self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        if self._drain_due is not None:
            self._drain_due.cancel()
            self._drain_due = None
        self._draining = True
        try:
            for _ in range(BURST):
                if self._socket.closed or not self._is_readable():
                    return
                self._on_message(self._receive())
        finally:
            self._draining = False
        self._drain_soon()

    def _receive(self) -> list[bytes]:
        frame = self._socket.recv(_NOW, copy=False)
        frames = [frame.bytes]
        while frame.more:
            frame = self._socket.recv(_NOW, copy=False)
            frames.append(frame.bytes)
        return frames


def monitor(socket: "zmq.Socket[bytes]", events: int) -> "zmq.Socket[bytes]":
    """The socket that tells of `events`, under a name of its own.

    ZeroMQ's default name holds the descriptor, which a new socket may get before the old name is free.
    """
    return socket.get_monitor_socket(events, f"inproc://monitor-{uuid4().hex}")
