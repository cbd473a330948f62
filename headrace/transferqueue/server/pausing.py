"""A queue that stands: of some tables no row is leased, and no wait's time runs, until it goes on.

Invariant: whoever waits when the queue stands has, when it goes on, the time left that it had; what is held
meanwhile is held, renewed and handed in as always, and storage units show as always that they are there.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.transferqueue.server.hub import Call, Hub
    from headrace.transferqueue.server.waits import Wait


def pause(hub: "Hub", call: "Call") -> dict[str, object]:
    """Has these tables stand, and the others not; with none, all goes on."""
    tables = [hub.table(str(name)).spec.name for name in call.arguments.sequence("tables")]
    stood, hub.paused = hub.paused, dict.fromkeys(tables, call.arguments.text("reason"))
    if hub.paused and not stood:
        hub.paused_s = hub.now
    if stood and not hub.paused:
        hub.waits.postpone(hub.paused_s, hub.now)
    for name in stood.keys() - hub.paused.keys():
        for task in hub.tables[name].flows:
            hub.wake(("task", task))
    hub.look_ahead()
    return {}


def left_s(hub: "Hub", wait: "Wait") -> float:
    """Until the wait is in vain: while the queue stands it does not get less."""
    stands = hub.paused and not wait.runs_on
    return wait.deadline_s - (max(wait.since_s, hub.paused_s) if stands else hub.now)
