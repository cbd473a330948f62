"""The storage units of a queue as the controller knows them, and what they and their readers ask of it.

    serving ─ silent for AWAY_S, or closed ─► away ─ attends or registers again ─► serving
                                               └─ in memory: closed, or silent for give_up_s ─► given up

A unit registers under its node's name and an incarnation: the same again is the same bytes, another one means
that the bytes of the one before are gone. It then attends: a wait on the controller's side that ends when
there are segments to remove, and by which the controller knows that it is there.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.transferqueue.errors import Refused
from headrace.transferqueue.state.parking import park, unpark
from headrace.transferqueue.state.records import Block
from headrace.transferqueue.state.reissue import lose

if TYPE_CHECKING:
    from headrace.transferqueue.server.hub import Call, Hub

AWAY_S = 3.0
"""Silence after which a unit counts as away."""
ATTEND_S = 1.0
"""Longest that a unit waits before it shows again that it is there."""
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class Unit:
    """The storage unit of one node."""

    node: str
    address: str
    directory: str
    incarnation: str
    attended_s: float
    away: bool = False
    """It was silent too long: rows on its node are parked."""


def terms(hub: "Hub", call: "Call") -> dict[str, Any]:
    """What holds for the payload of other nodes."""
    return {"sync": hub.terms.sync, "archive": hub.terms.archive}


def inventory(hub: "Hub", call: "Call") -> dict[str, Any]:
    """The blocks that a node should have, [segment, offset, length, checksum], for its unit to look at."""
    node = call.arguments.text("node")
    blocks = {id(block): block for block in _blocks(hub, node)}.values()
    return {"blocks": [[block.segment, block.offset, block.length, block.checksum] for block in blocks]}


def unit(hub: "Hub", call: "Call") -> dict[str, Any]:
    """A unit is there; `holds` names its segments, of which it shall remove those that nobody needs, and
    `torn` blocks, [segment, offset], that are not as they were written."""
    arguments = call.arguments
    node, incarnation = arguments.text("node"), arguments.text("incarnation")
    known = hub.units.get(node)
    if known is not None and known.incarnation != incarnation:
        give_up(hub, node, f"the storage unit of node {node!r} came back without its bytes")
    hub.units[node] = Unit(
        node=node,
        address=arguments.text("address"),
        directory=arguments.text("directory"),
        incarnation=incarnation,
        attended_s=hub.now,
    )
    hub.expect(hub.now + AWAY_S)
    for table in hub.tables.values() if node else ():
        unpark(table, node)
    torn = {(str(segment), int(offset)) for segment, offset in arguments.sequence("torn")}
    reissued, dropped = _lose(hub, node, lambda b: (b.segment, b.offset) in torn, TORN) if torn else (0, 0)
    present = {client.hex() for client in hub.sessions}
    hub.custody.open(node, [str(name) for name in arguments.sequence("holds")], present)
    return {"reissued": reissued, "dropped": dropped}


def attend(hub: "Hub", call: "Call") -> dict[str, Any] | None:
    """Waits for segments to remove; `done` names those that are."""
    arguments = call.arguments
    node, incarnation = arguments.text("node"), arguments.text("incarnation")
    known = hub.units.get(node)
    if known is None or known.incarnation != incarnation:
        raise Refused(f"node {node!r} was given up or has another storage unit; start this one anew")
    known.attended_s = hub.now
    if known.away:
        _log.warning("the storage unit of node %r is back", node)
        hub.happen("back", node)
    hub.custody.removed(node, [str(name) for name in arguments.sequence("done")])

    def attempt() -> dict[str, Any] | None:
        names = hub.custody.retired(node)
        return {"remove": names} if names else None

    why = f"no segment of node {node!r} is to be removed"
    return hub.wait(call, ("unit", node), attempt, lambda: why, runs_on=True)


def leave(hub: "Hub", call: "Call") -> dict[str, Any]:
    """A unit closes: on disk it is away from now on, in memory its bytes go with it."""
    node = call.arguments.text("node")
    known = hub.units.get(node)
    if known is not None and known.incarnation == call.arguments.text("incarnation"):
        if hub.durable:
            known.away = True
            for table in hub.tables.values() if node else ():
                park(table, node)
        else:
            give_up(hub, node, f"the storage unit of node {node!r} was closed")
    hub.forget(call.client)
    return {}


def unit_state(hub: "Hub", call: "Call") -> dict[str, Any]:
    """What is known of a node's unit, for a reader that could not reach it."""
    node = call.arguments.text("node")
    known = hub.units.get(node)
    return {
        "known": known is not None,
        "away": known is not None and known.away,
        "durable": hub.durable,
        "give_up_s": hub.terms.give_up_s,
    }


def broken(hub: "Hub", call: "Call") -> dict[str, Any]:
    """A unit answered a reader that it has not got a block: its rows are issued again, or dropped."""
    arguments = call.arguments
    node, segment, offset = arguments.text("node"), arguments.text("segment"), arguments.integer("offset")
    which = (node, segment, offset)
    reissued, dropped = _lose(hub, node, lambda b: (b.node, b.segment, b.offset) == which, TORN)
    return {"reissued": reissued, "dropped": dropped}


def addresses(hub: "Hub", places: list[list[Any]]) -> dict[str, str]:
    """Where the blocks of an answer are read by clients of other nodes; in the order of the blocks, so that
    an answer which is given again has the same bytes."""
    nodes = dict.fromkeys(str(place[-1]) for place in places)
    return {node: hub.units[node].address for node in nodes if node in hub.units}


def give_up(hub: "Hub", node: str, reason: str) -> None:
    """A unit's bytes are gone: its rows are issued again or dropped, and clients of its node are shut out.

    Nothing is lost with the unit beside the controller: its files are the controller's.
    """
    hub.units.pop(node, None)
    if not node:
        return
    for client in [client for client, session in hub.sessions.items() if session.node == node]:
        holder = hub.sessions[client].holder
        hub.forget(client)
        for table in hub.tables.values():
            table.evict(holder, reason)
    for table in hub.tables.values():
        unpark(table, node)
    _lose(hub, node, lambda block: True, reason)
    hub.custody.drop(node)


TORN = "payload torn or lost"


def _lose(hub: "Hub", node: str, is_lost: Callable[[Block], bool], reason: str) -> tuple[int, int]:
    """Takes those blocks of a node out of every table; returns rows issued again and dropped."""
    reissued = dropped = 0
    for name, table in hub.tables.items():
        again, gone = lose(table, lambda block: block.node == node and is_lost(block), reason)
        if again or gone:
            _log.warning("table %s: rows %s are issued again, %s are dropped: %s", name, again, gone, reason)
        reissued, dropped = reissued + len(again), dropped + len(gone)
    return reissued, dropped


def _blocks(hub: "Hub", node: str) -> list[Block]:
    rows = [
        row for table in hub.tables.values() for row in (*table.shelf.rows.values(), *table.history.kept())
    ]
    return [block for row in rows for block in row.blocks if block.node == node]
