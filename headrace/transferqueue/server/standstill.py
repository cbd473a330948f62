"""A durable queue whose journal has no room: it answers what keeps nothing, and its time stands still.

    kept ─► JournalFull ─► standing: requests are parked, answers withheld ─► kept ─► both go on, in order

Invariant: no answer goes out of what is not kept, and nothing is begun that has to be. No lease ends, no wait
and no client meanwhile: the queue's clock goes on from where it stood.
"""

from headrace.transferqueue.link.wire import Request, read_reply, write_reply
from headrace.transferqueue.server.operations import PASSING

Frames = list[bytes]
Parked = dict[tuple[bytes, int], Request]


class Standstill:
    """One of them. `unkept`: requests, by client and number, that were done and are not kept."""

    def __init__(self, since_s: float, unkept: set[tuple[bytes, int]], answers: list[Frames]) -> None:
        """`answers`: what was to go out when it began."""
        self.since_s = since_s
        """On the queue's clock, where it stands."""
        self.parked: Parked = {}
        self._unkept = unkept
        self._withheld: dict[tuple[bytes, int], Frames] = {}
        self.free = [frames for frames in answers if not self.withhold(frames)]
        """Answers that keep nothing, and need not wait."""

    def withhold(self, frames: Frames) -> bool:
        """Whether an answer has to wait until what it tells of is kept."""
        client, reply = frames
        which = client, read_reply(reply)[0]
        if which in self._unkept:
            self._withheld[which] = frames
        return which in self._unkept

    def withheld(self) -> list[Frames]:
        return list(self._withheld.values())

    def park(self, client: bytes, request: Request) -> bool:
        """Whether the request has to wait; one that comes again waits where it did."""
        if request.operation == "cancel" and request.arguments.has("request"):
            self.parked.pop((client, request.arguments.integer("request")), None)
        if request.operation in PASSING:
            return False
        self.parked.setdefault((client, request.id), request)
        return True

    def answer(self, client: bytes, request: Request, *, known: bool) -> bytes | None:
        """What is said at once to who would wait in vain, or give up: a client that says goodbye, and the
        pulse of one whose hello waits. None: nothing of it, the hub knows."""
        if request.operation == "goodbye":
            return write_reply(request.id, {})
        greets = not known and any(waiting == client for waiting, _ in self.parked)
        if request.operation == "pulse" and greets:
            return write_reply(request.id, {"lost": [], "unknown": []})
        return None
