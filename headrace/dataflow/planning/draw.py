"""A graph as text: a tree for the terminal, or a Mermaid flow chart; `drawing/svg.py` makes the picture.

Every edge is drawn once. In the tree a node hangs in full under the last of its inputs and as a bare name
under the others.
"""

import textwrap
from collections.abc import Iterator

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.describe import describe
from headrace.dataflow.planning.drawing.picture import BESIDE, Box, Picture, picture
from headrace.dataflow.planning.roles import fused
from headrace.dataflow.planning.topology import is_service, order, weight_edges

WIDTH = 100
"""Columns of a terminal that a tree fits, but for single words that are longer."""


def draw_text(spec: GraphSpec) -> str:
    """The graph for a terminal."""
    place = {name: index for index, name in enumerate(order(spec))}
    lines: list[str] = []
    for name, node in spec.nodes.items():
        if not node.inputs:
            lines += [*_lines(spec, name, "", ""), *_branches(spec, name, place)]
    lines += [f"{trainer} ~~ weights of {policy} ~~> {to}" for trainer, policy, to in weight_edges(spec)]
    return "\n".join(lines)


def draw_mermaid(spec: GraphSpec) -> str:
    """The graph as a Mermaid flow chart: a subgraph for each table; dotted edges carry weights."""
    shown = picture(spec)
    lines = ["flowchart TB"]
    for lane in shown.lanes:
        boxes = [_mermaid_box(box) for box in shown.boxes if box.lane == lane]
        if lane == BESIDE:
            lines += [f"    {box}" for box in boxes]
        else:
            lines += [f'    subgraph table_{lane}["{lane}: {shown.lanes[lane]}"]']
            lines += [*(f"        {box}" for box in boxes), "    end"]
    return "\n".join([*lines, *_mermaid_edges(shown)])


def _mermaid_box(box: Box) -> str:
    opening, closing = ("[(", ")]") if box.kind == "source" else ("[", "]")
    within = "".join(f"<br/>ƒ {name}" for name in box.fused)
    return f'{_id(box.name)}{opening}"{box.name}<br/>{box.text}{within}"{closing}'


def _mermaid_edges(shown: Picture) -> Iterator[str]:
    for flow in shown.flows:
        yield f"    {_id(flow.source)} --> {_id(flow.target)}"
    for supply in shown.supplies:
        said = f'"weights of {supply.policy}"'
        yield f"    {_id(supply.trainer)} -. {said} .-> {_id(supply.reader)}"


def _id(name: str) -> str:
    """`end` is a word of Mermaid's own, and an `o` or `x` after an arrow is its head."""
    return f"node_{name}" if name == "end" or name[0] in "ox" else name


def _lines(spec: GraphSpec, name: str, first: str, rest: str) -> list[str]:
    node = spec.nodes[name]
    what = describe(node)
    if not is_service(spec, name):
        homes = ", ".join(other for other in order(spec) if name in fused(spec, other))
        what += f", within {homes}" if homes else ""
    return textwrap.wrap(
        f"{name}  ({what})",
        WIDTH,
        initial_indent=first,
        subsequent_indent=f"{rest}{' ' * (len(name) + 3)}",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _branches(spec: GraphSpec, name: str, place: dict[str, int], indent: str = "") -> list[str]:
    readers = sorted(
        (other for other in spec.nodes if name in spec.nodes[other].inputs), key=place.__getitem__
    )
    lines: list[str] = []
    for reader in readers:
        last = reader == readers[-1]
        arrow, below = f"{indent}{'└─► ' if last else '├─► '}", f"{indent}{'    ' if last else '│   '}"
        if name == max(spec.nodes[reader].inputs, key=place.__getitem__):
            lines += [*_lines(spec, reader, arrow, below), *_branches(spec, reader, place, below)]
        else:
            lines.append(f"{arrow}{reader}")
    return lines
