"""A put as it arrives: its cells are taken into custody, its figures are checked and unpacked."""

from headrace.transferqueue.errors import SchemaError
from headrace.transferqueue.link.wire import Arguments, unpack_floats, unpack_ints
from headrace.transferqueue.server.hub import Call, Hub
from headrace.transferqueue.state.records import Entry
from headrace.transferqueue.state.table import Table


def read_entry(hub: Hub, table: Table, call: Call) -> Entry:
    """SchemaError where it has no rows or columns, or not one figure per row."""
    arguments = call.arguments
    uids = arguments.uids("uids")
    names = arguments.sequence("columns")
    columns = sum({table.bits[table.spec.column(str(name)).name] for name in names})
    lengths = {str(label): unpack_ints(packed) for label, packed in arguments.mapping("lengths").items()}
    groups, floors, ceilings = map(arguments.some_uids, ("groups", "floors", "ceilings"))
    figures = _figures(table, arguments)
    counted = (*lengths.values(), *figures.values(), groups, floors, ceilings)
    sizes = {len(values) for values in counted if values is not None}
    if not uids or not columns or sizes - {len(uids)}:
        raise SchemaError(
            f"a put of {len(uids)} rows and {len(names)} columns has {sorted(sizes)} figures per row"
        )
    lease = arguments.integer("lease") if arguments.has("lease") else None
    known_same = arguments.boolean("known_same")
    place = (arguments.text("segment"), arguments.integer("offset"), arguments.integer("length"))
    checksum = arguments.integer("checksum")
    return Entry(
        uids=uids,
        columns=columns,
        block=hub.custody.admit(call.owner, call.session.node, *place, checksum),
        groups=groups,
        lease=lease,
        floors=floors,
        ceilings=ceilings,
        lengths=lengths,
        figures=figures,
        known_same=known_same,
    )


def _figures(table: Table, arguments: Arguments) -> dict[str, list[float]]:
    packed = arguments.mapping("figures") if arguments.has("figures") else {}
    if not packed:
        return {}
    return {name: unpack_floats(packed[name]) for name in table.spec.figures if name in packed}
