"""The client for code without an event loop: the same client, on a loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from headrace.transferqueue.client import Client

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[BlockingClient, P], T]":
    def call(self: "BlockingClient", *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(method(self.client, *args, **kwargs))

    call.__name__, call.__doc__ = method.__name__, method.__doc__
    return call


class BlockingClient:
    """Every method of `Client`, returning when it is done.

    with BlockingClient.connect(address, holder="notebook") as queue:
        print(queue.stats())
    """

    def __init__(self, address: str, *, holder: str, timeout_s: float, keys: Path | None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"queue {holder}", daemon=True)
        self._thread.start()
        try:
            self.client = self.run(Client.connect(address, holder=holder, timeout_s=timeout_s, keys=keys))
        except BaseException:
            self._stop()
            raise

    @classmethod
    def connect(
        cls, address: str, *, holder: str, timeout_s: float = 10.0, keys: Path | None = None
    ) -> "BlockingClient":
        """See `Client.connect`."""
        return cls(address, holder=holder, timeout_s=timeout_s, keys=keys)

    def __enter__(self) -> "BlockingClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    create = _blocking(Client.create)
    put = _blocking(Client.put)
    lease = _blocking(Client.lease)
    shortages = _blocking(Client.shortages)
    ack = _blocking(Client.ack)
    release = _blocking(Client.release)
    commit = _blocking(Client.commit)
    finish = _blocking(Client.finish)
    reopen = _blocking(Client.reopen)
    drop = _blocking(Client.drop)
    rewind = _blocking(Client.rewind)
    checkpointed = _blocking(Client.checkpointed)
    publish = _blocking(Client.publish)
    published = _blocking(Client.published)
    evict = _blocking(Client.evict)
    set_staleness = _blocking(Client.set_staleness)
    pause = _blocking(Client.pause)
    end = _blocking(Client.end)
    stats = _blocking(Client.stats)
    waits = _blocking(Client.waits)

    def close(self) -> None:
        """Hands back what is held, disconnects, and ends the thread."""
        if self._thread.is_alive():
            self.run(self.client.close())
            self._stop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the client's loop; an interrupt here cancels it there."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
