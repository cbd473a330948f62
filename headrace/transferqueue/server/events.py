"""What happens to a queue while nobody asks: leases end, units go away and come back, clients fall silent.

Each is one function over the hub, recorded where it happens, so that a replay does it at the same place.
`due` finds what the clock has brought about; nothing here looks at a clock.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from headrace.transferqueue.server.nodes import AWAY_S, give_up
from headrace.transferqueue.state.parking import park, unpark

if TYPE_CHECKING:
    from headrace.transferqueue.server.hub import Hub


def expired(hub: "Hub", leases: list[int]) -> None:
    """Nobody renewed these leases."""
    for table in hub.tables.values():
        table.end_leases([lease for lease in leases if table.leases.holds(lease)])


def away(hub: "Hub", node: str) -> None:
    """A unit is not heard of: what only it can give is parked. Clients beside it see to themselves."""
    hub.units[node].away = True
    for table in hub.tables.values() if node else ():
        park(table, node)


def back(hub: "Hub", node: str) -> None:
    """The unit attends again, with the bytes that it had."""
    hub.units[node].away = False
    for table in hub.tables.values() if node else ():
        unpark(table, node)


def given_up(hub: "Hub", node: str) -> None:
    """A unit of a queue in memory stayed away: its bytes count as lost."""
    give_up(hub, node, f"the storage unit of node {node!r} was away for {hub.terms.give_up_s:g} s")


def forgotten(hub: "Hub", client: bytes) -> None:
    """A client went without a goodbye and was never evicted."""
    hub.forgotten += 1
    hub.forget(client)


EVENTS: dict[str, Callable[["Hub", Any], None]] = {
    event.__name__: event for event in (expired, away, back, given_up, forgotten)
}


def due(hub: "Hub", now: float) -> Iterator[tuple[str, Any, str]]:
    """The events that are due at `now`, with a line for the log."""
    late = [held.id for table in hub.tables.values() for held in table.leases.late(now)]
    if late:
        yield "expired", late, f"leases {late} expired; their rows are handed out again"
    for unit in list(hub.units.values()):
        silent_s = now - unit.attended_s
        if not unit.away and silent_s >= AWAY_S:
            what = "its rows are parked" if unit.node else "clients of other nodes cannot read what is here"
            yield "away", unit.node, f"the storage unit of node {unit.node!r} is silent; {what}"
        elif unit.away and not hub.durable and silent_s >= hub.terms.give_up_s:
            yield "given_up", unit.node, f"the storage unit of node {unit.node!r} is given up"
    for client, session in hub.silence.late(hub, now):
        yield "forgotten", client, f"client {session.holder!r} went without a goodbye; it is forgotten"


def next_due(hub: "Hub") -> float | None:
    """When `due` has something next, at the earliest."""
    dues = [table.leases.next_deadline() for table in hub.tables.values()]
    for unit in hub.units.values():
        if not unit.away:
            dues.append(unit.attended_s + AWAY_S)
        elif not hub.durable:
            dues.append(unit.attended_s + hub.terms.give_up_s)
    dues.append(hub.silence.next_deadline())
    return min((at for at in dues if at is not None), default=None)
