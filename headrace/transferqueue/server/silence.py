"""Clients that may be gone: when each was last heard, looked at only when it is due.

A client is forgotten after `PATIENCES` times its own timeout without a message, if it holds no lease, waits
for nothing and its line is down. One that is idle, or busy with something else, keeps its line and stays.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.transferqueue.server.hub import Hub, Session

PATIENCES = 6
"""Of its own timeouts that a client may be silent before its line is looked at."""


class Silence:
    """Deadlines of clients, each put off lazily by what was heard since."""

    def __init__(self) -> None:
        self._due: list[tuple[float, bytes]] = []

    def expect(self, client: bytes, session: "Session") -> float:
        """When the client will be looked at if nothing is heard of it."""
        due_s = session.heard_s + PATIENCES * session.timeout_s
        heappush(self._due, (due_s, client))
        return due_s

    def next_deadline(self) -> float | None:
        return self._due[0][0] if self._due else None

    def late(self, hub: "Hub", now: float) -> Iterator[tuple[bytes, "Session"]]:
        """Clients to forget now."""
        while self._due and self._due[0][0] <= now:
            _, client = heappop(self._due)
            session = hub.sessions.get(client)
            if session is None:
                continue
            if session.heard_s + PATIENCES * session.timeout_s > now:
                self.expect(client, session)
            elif _is_owed(hub, client, session) or hub.reaches(client):
                session.heard_s = now
                self.expect(client, session)
            else:
                yield client, session


def _is_owed(hub: "Hub", client: bytes, session: "Session") -> bool:
    leases = any(table.leases.of(session.holder) for table in hub.tables.values())
    return leases or hub.waits.has_asker(client)
