"""What a picture of a graph shows, without its geometry: tables as lanes, services as boxes, edges.

A transform has no box: it stands within the services that it is fused into, and its inputs are theirs.
"""

from dataclasses import dataclass

from headrace.dataflow.language.spec import GraphSpec, NodeKind
from headrace.dataflow.planning.arithmetic import step_plan
from headrace.dataflow.planning.describe import describe
from headrace.dataflow.planning.roles import fused, leased_columns, marks, reads, writes
from headrace.dataflow.planning.topology import (
    is_service,
    leased_table,
    order,
    tables,
    trainer_on,
    weight_edges,
)
from headrace.services.kinds import kind_of

BESIDE = ""
"""Lane of what works on no table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A service."""

    name: str
    kind: NodeKind
    text: str
    """What it does."""
    fused: tuple[str, ...]
    """Transforms within it."""
    lane: str
    """Table that it leases from, or makes rows of where it leases none."""
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Columns that go from a service to one that reads them."""

    source: str
    target: str
    columns: tuple[str, ...]
    """None where the one only waits for the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """Weights that go from a trainer to a reader."""

    trainer: str
    policy: str
    reader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    name: str
    lanes: dict[str, str]
    """What to say of each, by its name; in the order of the flow, that of no table last."""
    boxes: tuple[Box, ...]
    """Each after those that it reads from."""
    flows: tuple[Flow, ...]
    supplies: tuple[Supply, ...]


def picture(spec: GraphSpec) -> Picture:
    """Of a graph whose structure has no fault."""
    flow = order(spec)
    within = {name: fused(spec, name) for name in flow if is_service(spec, name)}
    at_home = {inner for each in within.values() for inner in each}
    shown = [name for name in flow if name in within or name not in at_home]
    boxes = tuple(_box(spec, name, within.get(name, ())) for name in shown)
    lanes = {table: _said_of(spec, table) for table in tables(spec)}
    if any(box.lane == BESIDE for box in boxes):
        lanes[BESIDE] = ""
    return Picture(
        name=spec.name,
        lanes=lanes,
        boxes=boxes,
        flows=tuple(_flow(spec, source, name) for name in shown for source in _sources(spec, name, at_home)),
        supplies=tuple(Supply(trainer=t, policy=p, reader=r) for t, p, r in weight_edges(spec)),
    )


def _box(spec: GraphSpec, name: str, within: tuple[str, ...]) -> Box:
    node = spec.nodes[name]
    lane = name if kind_of(node.kind).starts_table else leased_table(spec, name)
    return Box(
        name=name,
        kind=node.kind,
        text=describe(node),
        fused=within,
        lane=lane or BESIDE,
        replicas=getattr(node.options, "replicas", 1),
    )


def _sources(spec: GraphSpec, name: str, at_home: set[str]) -> tuple[str, ...]:
    """The boxes that a box reads from: its inputs, with transforms replaced by theirs."""
    found: dict[str, None] = {}
    for source in spec.nodes[name].inputs:
        found |= dict.fromkeys(_sources(spec, source, at_home) if source in at_home else (source,))
    return tuple(found)


def _flow(spec: GraphSpec, source: str, target: str) -> Flow:
    wanted = leased_columns(spec, target) if is_service(spec, target) else ()
    wanted = (*wanted, *reads(spec, target))
    written = {column.name for column in (*writes(spec, source), *marks(spec, source))}
    columns = tuple(dict.fromkeys(column for column in wanted if column in written))
    return Flow(source=source, target=target, columns=columns)


def _said_of(spec: GraphSpec, table: str) -> str:
    batch, trainer = step_plan(spec, table), trainer_on(spec, table)
    rows = f"{batch.prompts_per_step} x {batch.samples_per_prompt} rows a step"
    return rows if trainer is None else f"{rows}, trains {spec.nodes[trainer].policy}"
