"""A graph as a picture: a tree of text for the terminal, or a Mermaid flow chart.

Every edge is drawn once. In the tree a node hangs in full under the last of its inputs and as a bare name
under the others.
"""

from headrace.dataflow.language.spec import GraphSpec, NodeSpec
from headrace.dataflow.planning.topology import order, weight_edges
from headrace.services.options import (
    BranchOptions,
    EvalOptions,
    JoinOptions,
    RewardOptions,
    RolloutOptions,
    SourceOptions,
    TrainerOptions,
    TransformOptions,
)


def draw_text(spec: GraphSpec) -> str:
    """The graph for a terminal."""
    place = {name: index for index, name in enumerate(order(spec))}
    lines: list[str] = []
    for name, node in spec.nodes.items():
        if not node.inputs:
            lines += [_line(name, node), *_branches(spec, name, place)]
    lines += [f"{trainer} ~~ weights of {policy} ~~> {to}" for trainer, policy, to in weight_edges(spec)]
    return "\n".join(lines)


def draw_mermaid(spec: GraphSpec) -> str:
    """The graph as a Mermaid flow chart; dotted edges carry weights."""
    lines = ["flowchart LR"]
    for name, node in spec.nodes.items():
        opening, closing = ("[(", ")]") if node.kind == "source" else ("[", "]")
        lines.append(f'    {name}{opening}"{name}<br/>{describe(node)}"{closing}')
    lines += [f"    {source} --> {name}" for name, node in spec.nodes.items() for source in node.inputs]
    lines += [
        f'    {trainer} -. "weights of {policy}" .-> {to}' for trainer, policy, to in weight_edges(spec)
    ]
    return "\n".join(lines)


def describe(node: NodeSpec) -> str:
    """What a node does, in a few words."""
    options = node.options
    match options:
        case SourceOptions():
            what = f"source {options.dataset.kind}, {options.samples_per_prompt} samples per prompt"
            if not options.is_fixed_order():
                what += f", drawn by {options.sampler.kind}, budget {options.budget.kind}"
        case RolloutOptions():
            what = f"rollout {node.policy}, {options.engine} engine"
        case RewardOptions():
            what = f"reward {options.verifier.kind}"
        case TrainerOptions():
            batch = f"{options.prompts_per_step} prompts per step"
            what = f"trainer {node.policy}, {options.algorithm.kind}, {batch}"
        case BranchOptions(function=None):
            what = "branch, rows as they are"
        case BranchOptions():
            what = f"branch by {options.function}, {options.samples_per_prompt} samples per prompt"
        case JoinOptions():
            what = f"join, {options.reduce} of {options.of} as {options.column}"
        case TransformOptions():
            return f"transform by {options.function}"
        case EvalOptions():
            what = f"eval {node.policy}, {options.prompts} prompts every {options.every} versions"
        case _:
            what = f"{node.kind} {node.policy}" if node.policy else node.kind
    return what if options.replicas == 1 else f"{what}, {options.replicas} replicas"


def _line(name: str, node: NodeSpec) -> str:
    return f"{name}  ({describe(node)})"


def _branches(spec: GraphSpec, name: str, place: dict[str, int], indent: str = "") -> list[str]:
    readers = sorted(
        (other for other in spec.nodes if name in spec.nodes[other].inputs), key=place.__getitem__
    )
    lines: list[str] = []
    for reader in readers:
        node = spec.nodes[reader]
        last = reader == readers[-1]
        whole = name == max(node.inputs, key=place.__getitem__)
        lines.append(f"{indent}{'└─► ' if last else '├─► '}{_line(reader, node) if whole else reader}")
        if whole:
            lines += _branches(spec, reader, place, indent + ("    " if last else "│   "))
    return lines
