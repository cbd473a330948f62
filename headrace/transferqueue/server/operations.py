"""What a client may ask of the controller, one function per operation.

Each takes its arguments by type from the call and gives the body of the reply, or None when it waits.
"""

from dataclasses import asdict
from typing import Any

from headrace.transferqueue.errors import QueueError, Refused, SchemaError, TimelineMoved, UnknownName
from headrace.transferqueue.link.wire import pack_ints, unpack_ints
from headrace.transferqueue.schema import TableSpec
from headrace.transferqueue.server.census import table_stats
from headrace.transferqueue.server.entries import read_entry
from headrace.transferqueue.server.explain import why_no_lease, why_no_room
from headrace.transferqueue.server.hub import Call, Hub, Operation
from headrace.transferqueue.server.nodes import (
    addresses,
    attend,
    broken,
    inventory,
    leave,
    terms,
    unit,
    unit_state,
)
from headrace.transferqueue.server.pausing import left_s, pause
from headrace.transferqueue.server.places import lease_body, places
from headrace.transferqueue.server.shortages import short, shortages
from headrace.transferqueue.state import over
from headrace.transferqueue.state import rewind as rewinding
from headrace.transferqueue.state.adoption import adopt
from headrace.transferqueue.state.publications import Publications
from headrace.transferqueue.state.records import Entry, Publication
from headrace.transferqueue.state.rewind import fork
from headrace.transferqueue.state.table import Table
from headrace.transferqueue.stats import Stats, Waited

Body = dict[str, Any]


def hello(hub: Hub, call: Call) -> Body:
    session, arguments = call.session, call.arguments
    session.holder = arguments.text("holder")
    session.node = arguments.text("node") if arguments.has("node") else ""
    session.timeout_s = arguments.number("patience_s") if arguments.has("patience_s") else session.timeout_s
    if session.node and session.node not in hub.units:
        raise Refused(
            f"no storage unit serves node {session.node!r}; there are: {', '.join(hub.units) or 'none'}. "
            "Start one there first"
        )
    directory = hub.units[session.node].directory if session.node else str(hub.directory)
    return {"directory": directory, "durable": hub.durable}


def goodbye(hub: Hub, call: Call) -> Body:
    hub.forget(call.client)
    return {}


def pulse(hub: Hub, call: Call) -> Body:
    """Renews leases; says which have ended and which pending requests never arrived."""
    lost = []
    for lease in unpack_ints(call.arguments.binary("leases")):
        if not any(table.leases.renew(hub.now, lease) for table in hub.tables.values()):
            lost.append(lease)
    pending = unpack_ints(call.arguments.binary("pending"))
    return {"lost": lost, "unknown": [number for number in pending if not hub.knows(call, number)]}


def cancel(hub: Hub, call: Call) -> Body:
    hub.waits.cancel((call.client, call.arguments.integer("request")))
    return {}


def create(hub: Hub, call: Call) -> Body:
    spec = TableSpec.from_wire(call.arguments.mapping("spec"))
    known = hub.tables.get(spec.name)
    if known is not None:
        adopt(known, spec)
        return {}
    taken = [task.name for task in spec.tasks if task.name in hub.tables_by_task]
    if taken:
        other = hub.tables_by_task[taken[0]].spec.name
        raise Refused(f"task {taken[0]!r} of table {spec.name!r} is a task of table {other!r} already")
    parent = None if spec.origin is None else _parent(hub, spec.name, spec.origin.table)
    table = hub.tables[spec.name] = Table(spec, lease_ids=hub.lease_ids, parent=parent)
    hub.tables_by_task.update(dict.fromkeys(table.flows, table))
    newest = _newest(hub, spec.policy or "")
    if newest is not None:
        table.publish(newest.version)
    return {}


def describe(hub: Hub, call: Call) -> Body:
    return hub.table(call.arguments.text("table")).spec.to_wire()


def put(hub: Hub, call: Call) -> Body | None:
    table = hub.table(call.arguments.text("table"))
    entry = read_entry(hub, table, call)
    block, rows = entry.block, len(entry.uids)
    creates = entry.groups is not None and not all(uid in table.shelf.rows for uid in entry.uids)
    room = ("room", table.spec.name)
    acks = entry.lease if call.arguments.has("ack") and call.arguments.boolean("ack") else None

    def attempt() -> Body | None:
        try:
            if creates and not table.shelf.room(rows, block.length):
                return None
            answer = _write(hub, table, entry)
            hub.custody.hand(call.owner, answer.get("blocks", ()))
            if acks and not answer:
                table.ack(acks, entry.uids)
            return answer
        except QueueError:
            hub.custody.free(block)
            raise

    return hub.wait(
        call,
        room,
        attempt,
        lambda: why_no_room(table, rows, block.length),
        first=not (creates and hub.waits.has(room)),
        abandon=lambda: hub.custody.free(block),
    )


def lease(hub: Hub, call: Call) -> Body | None:
    arguments = call.arguments
    task, want = arguments.text("task"), arguments.integer("want")
    version = arguments.integer("version") if arguments.has("version") else None
    rank = arguments.integer("rank") if arguments.has("rank") else None
    table = hub.table_of(task)
    if want < 1:
        raise SchemaError(f"want is {want}; at least 1 row must be asked for")
    if table.flows[task].task.kind == "begin":
        _require_told(hub, call, table)

    def attempt() -> Body | None:
        if table.spec.name in hub.paused:
            return None
        held = table.lease(hub.now, task, want, holder=call.session.holder, version=version, rank=rank)
        if held is None:
            return None
        hub.expect(held.deadline_s)
        body = lease_body(hub, table, held)
        hub.custody.hand(call.owner, body["blocks"])
        return body

    def why() -> str:
        if (reason := hub.paused.get(table.spec.name)) is not None:
            return f"table {table.spec.name!r} is paused {reason}"
        return why_no_lease(table, task, version=version, tables=hub.tables_by_task)

    return hub.wait(call, ("task", task), attempt, why)


def ack(hub: Hub, call: Call) -> Body:
    hub.table(call.arguments.text("table")).ack(
        call.arguments.integer("lease"), call.arguments.some_uids("uids")
    )
    return {}


def release(hub: Hub, call: Call) -> Body:
    arguments = call.arguments
    carry = {uid: packed for uid, packed in arguments.sequence("carry")}
    returned = hub.table(arguments.text("table")).release(
        arguments.integer("lease"),
        call.arguments.some_uids("uids"),
        reason=arguments.text("reason"),
        failed=arguments.boolean("failed"),
        carry=carry,
    )
    return {"rows": returned}


def commit(hub: Hub, call: Call) -> Body:
    task, arguments = call.arguments.text("task"), call.arguments
    table = hub.table_of(task)
    table.commit(task, arguments.integer("step"), arguments.uids("uids"), holder=call.session.holder)
    return {}


def finish(hub: Hub, call: Call) -> Body:
    task = call.arguments.text("task")
    return {"leases": pack_ints(over.finish(hub.table_of(task), task))}


def reopen(hub: Hub, call: Call) -> Body:
    task = call.arguments.text("task")
    over.reopen(hub.table_of(task), task)
    return {}


def drop(hub: Hub, call: Call) -> Body:
    arguments = call.arguments
    hub.table(arguments.text("table")).drop(arguments.uids("uids"), arguments.text("reason"))
    return {}


def publish(hub: Hub, call: Call) -> Body:
    """Tells of a version; `lost` are rows of a history that it did not come to again."""
    arguments = call.arguments
    policy, version = arguments.text("policy"), arguments.integer("version")
    known = hub.policies.get(policy) or Publications(policy)
    forked = known.publish(version, arguments.text("checksum"))
    hub.policies[policy] = known
    gated = [table for table in hub.tables.values() if table.spec.policy == policy]
    lost = sum(len(fork(table, version)) for table in gated) if forked else None
    for table in gated:
        table.publish(version)
    hub.wake(("policy", policy))
    return {"lost": lost}


def published(hub: Hub, call: Call) -> Body | None:
    policy, after = call.arguments.text("policy"), call.arguments.integer("after")
    seen = call.arguments.integer("seen") if call.arguments.has("seen") else 0

    def attempt() -> Body | None:
        offered = hub.policies[policy].offered if policy in hub.policies else None
        if offered is None or offered.serial == seen:
            return None
        if offered.version <= after and _is_told(call, offered):
            return None
        call.session.timelines[policy] = offered.timeline
        return asdict(offered)

    def why() -> str:
        newest = _newest(hub, policy)
        known = "it was never published" if newest is None else f"the newest is {newest.version}"
        if newest is not None and hub.policies[policy].offered is None:
            known = "its trainer went back and has published none since"
        return f"no version of policy {policy!r} after {after}: {known}; its trainer owes it"

    return hub.wait(call, ("policy", policy), attempt, why)


def evict(hub: Hub, call: Call) -> Body:
    holder, reason = call.arguments.text("holder"), call.arguments.text("reason")
    for client in [client for client, session in hub.sessions.items() if session.holder == holder]:
        hub.forget(client)
    return {"rows": sum(table.evict(holder, reason) for table in hub.tables.values())}


def rewind(hub: Hub, call: Call) -> Body:
    task, step = call.arguments.text("task"), call.arguments.integer("step")
    table = hub.table_of(task)
    rewinding.rewind(table, task, step)
    if table.spec.made_policy in hub.policies:
        hub.policies[table.spec.made_policy].rewind(step)
    return {}


def checkpointed(hub: Hub, call: Call) -> Body:
    task, step = call.arguments.text("task"), call.arguments.integer("step")
    table = hub.table_of(task)
    rewinding.checkpointed(table, task, step)
    if table.spec.made_policy in hub.policies:
        hub.policies[table.spec.made_policy].cover(step)
    return {}


def set_staleness(hub: Hub, call: Call) -> Body:
    hub.table(call.arguments.text("table")).set_staleness(call.arguments.number("staleness"))
    return {}


def end(hub: Hub, call: Call) -> Body:
    hub.table(call.arguments.text("table")).end()
    return {}


def stats(hub: Hub, call: Call) -> Body:
    return Stats(
        tables={name: table_stats(table, hub.now) for name, table in hub.tables.items()},
        policies={name: known.newest.version for name, known in hub.policies.items() if known.newest},
        segments=len(hub.custody),
        segment_bytes=hub.custody.size,
        clients=len(hub.sessions),
        waiting=len(hub.waits),
        forgotten=hub.forgotten,
        malformed=hub.malformed,
        short=hub.shortages.now(),
    ).to_wire()


def waits(hub: Hub, call: Call) -> Body:
    """Of the clients, who waits for what."""
    known = ((wait, hub.sessions.get(wait.asker[0])) for wait in hub.waits)
    found = [
        Waited(
            holder=session.holder,
            why=wait.why(),
            since_s=hub.now - wait.since_s,
            left_s=left_s(hub, wait),
        )
        for wait, session in known
        if session is not None
    ]
    return {"waits": [asdict(each) for each in found]}


OPERATIONS: dict[str, Operation] = {
    operation.__name__: operation
    for operation in (
        hello,
        goodbye,
        pulse,
        cancel,
        create,
        describe,
        put,
        lease,
        ack,
        release,
        commit,
        finish,
        reopen,
        drop,
        publish,
        published,
        evict,
        rewind,
        checkpointed,
        set_staleness,
        pause,
        end,
        stats,
        waits,
        unit,
        attend,
        leave,
        unit_state,
        inventory,
        terms,
        broken,
        short,
        shortages,
    )
}

PASSING = frozenset(
    (
        *("pulse", "cancel", "describe", "stats", "waits", "attend", "unit_state", "inventory", "terms"),
        *("short", "shortages"),
    )
)
"""Operations that leave nothing which a restart would have to bring back."""


def _newest(hub: Hub, policy: str) -> Publication | None:
    return hub.policies[policy].newest if policy in hub.policies else None


def _parent(hub: Hub, table: str, origin: str) -> Table:
    if origin not in hub.tables:
        raise UnknownName(
            f"the groups of table {table!r} come from rows of {origin!r}, which is not there; create that "
            f"first; there are: {', '.join(hub.tables) or 'none yet'}"
        )
    return hub.tables[origin]


def _is_told(call: Call, newest: Publication) -> bool:
    """Whether the client knows of the timeline that `newest` is on."""
    return call.session.timelines.get(newest.policy, 0) >= newest.timeline


def _require_told(hub: Hub, call: Call, table: Table) -> None:
    newest = _newest(hub, table.spec.policy or "")
    if newest is not None and not _is_told(call, newest):
        raise TimelineMoved(
            f"timeline {newest.timeline} of policy {newest.policy!r} began and {call.session.holder!r} was "
            f"not told: ask for what is published, load version {newest.version} and lease again"
        )


def _write(hub: Hub, table: Table, entry: Entry) -> Body:
    written = table.put(hub.now, entry)
    if not written:
        return {}
    hub.custody.free(entry.block)
    blocks = places(written, entry.columns)
    uids = pack_ints([row.uid for row in written])
    return {"written": uids, "blocks": blocks, "units": addresses(hub, blocks)}
