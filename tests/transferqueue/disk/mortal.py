"""A durable queue without sockets that can be ended between any two steps."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from headrace.transferqueue import EndOfData, QueueError, WaitTimeout
from headrace.transferqueue.disk.chronicle import Chronicle
from headrace.transferqueue.link.wire import pack, read_reply, read_request
from headrace.transferqueue.payload.segments import checksum, segment_name
from headrace.transferqueue.server.hub import Hub
from headrace.transferqueue.server.operations import OPERATIONS

Crash = Literal["no", "before the commit", "after the commit"]
SEGMENT_BYTES = 4096
CELL_BYTES = 8
CLIENTS = {"source": b"c0000000", "a": b"c0000001", "b": b"c0000002", "t": b"c0000003"}


class MortalQueue:
    """Hub, journal and segments in one directory; `ask` is one request, sent again after a crash."""

    def __init__(self, directory: Path, *, state_every_bytes: int = 20_000) -> None:
        self.directory = directory
        self.state_every_bytes = state_every_bytes
        self.lines_are_up = True
        self.now = 0.0
        self.asked = self.crashes = 0
        self._ids = itertools.count(1)
        self._ends: dict[str, tuple[int, int]] = {}
        self._start()
        for holder in CLIENTS:
            self.ask(holder, "hello", {"holder": holder})

    def _start(self) -> None:
        self.replies: dict[int, bytes] = {}
        self.hub = Hub(self.directory, OPERATIONS, self._deliver, reaches=lambda client: self.lines_are_up)
        self.chronicle = Chronicle(self.directory, fsync="never", state_every_bytes=self.state_every_bytes)
        self.recovered = self.chronicle.recover(self.hub)
        self.hub.custody.sweep()

    def _deliver(self, client: bytes, reply: bytes) -> None:
        self.replies[read_reply(reply)[0]] = reply

    def restart(self) -> None:
        """Whatever was not committed is gone."""
        self.chronicle.close()
        self.crashes += 1
        self._start()

    def commit(self) -> None:
        self.chronicle.commit(self.hub)
        self.hub.custody.sweep()

    def ask(self, holder: str, operation: str, fields: Mapping[str, Any], crash: Crash = "no") -> Any:
        """The body of the reply; raises the error that came instead."""
        number = next(self._ids)
        request = read_request(pack([number, number, operation, fields]))
        self.asked += 1
        self.hub.handle(CLIENTS[holder], request, self.now)
        if crash == "before the commit":
            self.restart()
            self.hub.handle(CLIENTS[holder], request, self.now)
        self.commit()
        if crash == "after the commit":
            first = self.replies[number]
            self.restart()
            self.hub.handle(CLIENTS[holder], request, self.now)
            self.commit()
            body = read_reply(first)[1]
            assert self.replies[number] == first or isinstance(body, WaitTimeout | EndOfData)
        body = read_reply(self.replies[number])[1]
        if isinstance(body, QueueError):
            raise body
        return body

    def rejoin(self, holder: str) -> None:
        """A client that was shut out comes back; what it wrote before is not its own any more."""
        number, _ = self._ends.get(CLIENTS[holder].hex(), (-1, 0))
        self._ends[CLIENTS[holder].hex()] = (number + 1, 0)
        self.ask(holder, "hello", {"holder": holder})

    def tick(self, seconds: float) -> None:
        self.now += seconds
        self.hub.tick(self.now)
        self.commit()

    def block(self, holder: str, content: bytes) -> dict[str, Any]:
        """Writes a block as a client does, and says where it is."""
        owner = CLIENTS[holder].hex()
        number, end = self._ends.get(owner, (0, 0))
        if end + 64 > SEGMENT_BYTES:
            number, end = number + 1, 0
        self._ends[owner] = (number, end + 64)
        name = segment_name(owner, number)
        with (self.directory / name).open("r+b" if end else "w+b") as file:
            file.truncate(SEGMENT_BYTES)
            file.seek(end)
            file.write(content)
        return {"segment": name, "offset": end, "length": len(content), "checksum": checksum([content])}
