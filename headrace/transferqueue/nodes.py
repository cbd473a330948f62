"""The storage units of a queue as the controller knows them, and what they and their readers ask of it.

A unit registers under its node's name and an incarnation: the same again is the same bytes, another one means
that the bytes of the one before are gone. It then attends: a wait on the controller's side that ends when
there are segments to remove, and by which the controller knows that it is there.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.transferqueue.errors import Refused
from headrace.transferqueue.reissue import lose

if TYPE_CHECKING:
    from headrace.transferqueue.hub import Call, Hub

AWAY_S = 3.0
"""Silence after which a unit counts as away."""
ATTEND_S = 1.0
"""Longest that a unit waits before it shows again that it is there."""


@dataclass(slots=True, kw_only=True, eq=False)
class Unit:
    """The storage unit of one node."""

    node: str
    address: str
    directory: str
    incarnation: str
    attended_s: float


def unit(hub: "Hub", call: "Call") -> dict[str, Any]:
    """A unit is there; `holds` names its segments, of which it shall remove those that nobody needs."""
    arguments = call.arguments
    node, incarnation = arguments.text("node"), arguments.text("incarnation")
    known = hub.units.get(node)
    if known is not None and known.incarnation != incarnation:
        _lose(hub, node, f"the storage unit of node {node!r} came back without its bytes")
    hub.units[node] = Unit(
        node=node,
        address=arguments.text("address"),
        directory=arguments.text("directory"),
        incarnation=incarnation,
        attended_s=hub.now,
    )
    present = {client.hex() for client in hub.sessions}
    hub.custody.open(node, [str(name) for name in arguments.sequence("holds")], present)
    return {}


def attend(hub: "Hub", call: "Call") -> dict[str, Any] | None:
    """Waits for segments to remove; `done` names those that are."""
    arguments = call.arguments
    node, incarnation = arguments.text("node"), arguments.text("incarnation")
    known = hub.units.get(node)
    if known is None or known.incarnation != incarnation:
        raise Refused(f"node {node!r} was given up or has another storage unit; start this one anew")
    known.attended_s = hub.now
    hub.custody.removed(node, [str(name) for name in arguments.sequence("done")])

    def attempt() -> dict[str, Any] | None:
        names = hub.custody.retired(node)
        return {"remove": names} if names else None

    return hub.wait(call, ("unit", node), attempt, lambda: f"no segment of node {node!r} is to be removed")


def unit_state(hub: "Hub", call: "Call") -> dict[str, Any]:
    """Whether a node's unit has been heard of lately, for a reader that could not reach it."""
    known = hub.units.get(call.arguments.text("node"))
    return {
        "away": known is None or hub.now - known.attended_s > AWAY_S,
        "incarnation": "" if known is None else known.incarnation,
        "durable": hub.record is not None,
    }


def lost(hub: "Hub", call: "Call") -> dict[str, Any]:
    """A reader has found a unit's bytes gone for good: its rows are issued again, or dropped."""
    node = call.arguments.text("node")
    known = hub.units.get(node)
    if known is None or known.incarnation != call.arguments.text("incarnation"):
        return {"reissued": 0, "dropped": 0}
    reissued, dropped = _lose(hub, node, f"the storage unit of node {node!r} was lost")
    del hub.units[node]
    return {"reissued": reissued, "dropped": dropped}


def addresses(hub: "Hub", places: list[list[Any]]) -> dict[str, str]:
    """Where the blocks of an answer are read by clients of other nodes."""
    return {node: hub.units[node].address for node in {str(place[5]) for place in places} & hub.units.keys()}


def _lose(hub: "Hub", node: str, reason: str) -> tuple[int, int]:
    counts = [lose(table, node, reason) for table in hub.tables.values()]
    for client in [client for client, session in hub.sessions.items() if session.node == node]:
        holder = hub.sessions[client].holder
        hub.forget(client)
        for table in hub.tables.values():
            table.evict(holder, reason)
    hub.custody.drop(node)
    return sum(len(reissued) for reissued, _ in counts), sum(len(dropped) for _, dropped in counts)
