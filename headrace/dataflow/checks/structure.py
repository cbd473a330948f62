"""Whether the graph holds together: inputs and policies exist, rows start at a source and end at a trainer.

The other checks may rely on what this one refuses.
"""

from collections.abc import Iterator, Mapping

from headrace.dataflow.checks.idle import idle
from headrace.dataflow.language.problems import Path, Problem, listing, suggestion
from headrace.dataflow.language.spec import GraphSpec, NodeKind
from headrace.dataflow.planning.topology import cycle, sources, tables
from headrace.services.options import OptimizerOptions


def check_references(spec: GraphSpec) -> Iterator[Problem]:
    """Names that nodes refer to."""
    for name, node in spec.nodes.items():
        for source in node.inputs:
            if source not in spec.nodes:
                yield _unknown("node", source, spec.nodes, ("nodes", name, "inputs"))
            elif spec.nodes[source].kind == "trainer":
                yield Problem(
                    path=("nodes", name, "inputs"),
                    wrong=f"'{source}' is a trainer, which writes no columns",
                    way_out=f"take '{source}' out of the inputs; weights reach rollouts through the policy",
                )
        if len(set(node.inputs)) < len(node.inputs):
            yield Problem(
                path=("nodes", name, "inputs"), wrong="an input stands twice", way_out="name each one once"
            )
        if node.policy is not None and node.policy not in spec.policies:
            yield _unknown("policy", node.policy, spec.policies, ("nodes", name, "policy"))
    if loop := cycle(spec):
        yield Problem(
            path=("nodes", loop[0], "inputs"),
            wrong=f"the inputs form a cycle: {' -> '.join(loop)}",
            way_out="take one edge out; only weights flow backwards, and they do so by themselves",
        )


def check_tables(spec: GraphSpec) -> Iterator[Problem]:
    """One source, one rollout and one trainer in each table."""
    for name in spec.nodes:
        fed_by = sources(spec, name)
        if len(fed_by) > 1:
            yield Problem(
                path=("nodes", name, "inputs"),
                wrong=f"rows of {len(fed_by)} sources meet here: {listing(fed_by)}",
                allowed="one source",
                way_out="read from nodes of one source, or put the data into one set",
            )
    if not spec.of_kind("source"):
        yield _absent(("nodes",), "source", "prompts: {kind: source, dataset: copy}")
    for table, members in tables(spec).items():
        yield from _roles_filled(spec, table, members)


def _roles_filled(spec: GraphSpec, table: str, members: tuple[str, ...]) -> Iterator[Problem]:
    rollouts, trainers = (
        [name for name in members if spec.nodes[name].kind == kind] for kind in ("rollout", "trainer")
    )
    if not rollouts:
        example = f"answers: {{kind: rollout, inputs: [{table}], policy: {next(iter(spec.policies))}}}"
        yield _absent(("nodes", table), "rollout", example, f" reads '{table}'")
    elif not trainers:
        example = f"learn: {{kind: trainer, inputs: [{listing(members[1:])}], algorithm: grpo, ...}}"
        yield _absent(("nodes", table), "trainer", example, f" learns from the rows of '{table}'")
    elif len(trainers) > 1:
        yield Problem(
            path=("nodes", trainers[-1]),
            wrong=f"{listing(trainers)} train on the same rows of '{table}'",
            allowed="one trainer for each source",
            way_out="give the second one a source and a rollout of its own",
        )


def check_policies(spec: GraphSpec) -> Iterator[Problem]:
    """A trainer trains the policy that made its rows, nobody a teacher's, and every policy is used."""
    used = {node.policy for node in spec.nodes.values()}
    for name in spec.policies:
        if name not in used:
            yield Problem(
                path=("policies", name),
                wrong=f"no node uses the policy '{name}'",
                way_out="remove it, or name it in a node",
                severity="warning",
            )
    yield from _frozen(spec)
    for members in tables(spec).values():
        makers = {name: spec.nodes[name].policy for name in members if spec.nodes[name].kind == "rollout"}
        for name in members:
            trained = spec.nodes[name].policy
            if spec.nodes[name].kind == "trainer" and makers and trained not in makers.values():
                maker, made_by = next(iter(makers.items()))
                yield Problem(
                    path=("nodes", name, "policy"),
                    wrong=f"it trains '{trained}' on the answers of '{made_by}' (from {maker})",
                    allowed=listing(map(str, makers.values())),
                    way_out=f"write policy: {made_by}",
                )


def _frozen(spec: GraphSpec) -> Iterator[Problem]:
    trainers = {node.policy: name for name, node in spec.of_kind("trainer").items()}
    for name, node in spec.of_kind("teacher", "critic").items():
        if node.policy in trainers:
            started = f"; a reference scores under what '{node.policy}' started from"
            yield Problem(
                path=("nodes", name, "policy"),
                wrong=f"a {node.kind}'s weights stay as they are, and {trainers[node.policy]} trains "
                f"'{node.policy}'",
                allowed=listing(policy for policy in spec.policies if policy not in trainers),
                way_out=f"add a policy for the {node.kind} that no trainer names"
                + (started if node.kind == "teacher" else ""),
            )
    for name, policy in spec.policies.items():
        if name not in trainers and policy.optimizer != OptimizerOptions():
            yield idle(("policies", name, "optimizer"), f"no trainer names '{name}'", "remove it")


def _unknown(what: str, name: str, known: Mapping[str, object], path: Path) -> Problem:
    return Problem(
        path=path,
        wrong=f"there is no {what} '{name}'",
        allowed=listing(known),
        way_out=suggestion(name, known, otherwise=f"name one of these, or add a {what} '{name}'"),
    )


def _absent(path: Path, kind: NodeKind, example: str, purpose: str = "") -> Problem:
    return Problem(path=path, wrong=f"no {kind}{purpose}", way_out=f"add one: {example}")
