"""Who of a queue on disk has no room, and who wants to hear of it.

Invariant: `serial` grows with every change, so that a listener that names the last one it knows misses none.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headrace.transferqueue.stats import Shortage

if TYPE_CHECKING:
    from headrace.transferqueue.server.hub import Call, Hub

ITSELF = b""
"""The queue, among the clients that have no room."""
CHANGED = ("shortages", "")
"""What listeners wait under."""


class Shortages:
    """By client."""

    def __init__(self) -> None:
        self.serial = 0
        self._known: dict[bytes, Shortage] = {}

    def now(self) -> list[Shortage]:
        return sorted(self._known.values(), key=lambda short: short.holder)

    def begin(self, client: bytes, shortage: Shortage) -> None:
        self.serial += self._known.get(client) != shortage
        self._known[client] = shortage

    def end(self, client: bytes) -> bool:
        """Whether it had none until now."""
        ended = self._known.pop(client, None) is not None
        self.serial += ended
        return ended


def short(hub: "Hub", call: "Call") -> dict[str, Any]:
    """A client has no room for its cells, `needed_bytes` of them; 0: it has again."""
    arguments = call.arguments
    if needed_bytes := arguments.integer("needed_bytes"):
        shortage = Shortage(
            holder=call.session.holder,
            directory=arguments.text("directory"),
            needed_bytes=needed_bytes,
            reason=arguments.text("reason"),
            since=arguments.number("since"),
        )
        hub.shortages.begin(call.client, shortage)
    else:
        hub.shortages.end(call.client)
    hub.retry(CHANGED)
    return {}


def shortages(hub: "Hub", call: "Call") -> dict[str, Any] | None:
    """Waits until it is not as the client knows it, by the serial that it was told with that."""
    known = call.arguments.integer("known")

    def attempt() -> dict[str, Any] | None:
        if hub.shortages.serial == known:
            return None
        return {"serial": hub.shortages.serial, "short": [asdict(each) for each in hub.shortages.now()]}

    return hub.wait(call, CHANGED, attempt, lambda: "nobody else has come to be without room, or to have it")
