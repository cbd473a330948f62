"""Whether the graph holds together: inputs and policies exist, rows are answered and learned from.

The other checks may rely on what this one refuses.
"""

from collections.abc import Iterator, Mapping, Sequence

from headrace.dataflow.checks.idle import idle
from headrace.dataflow.language.fields import keys
from headrace.dataflow.language.problems import Path, Problem, listing, suggestion
from headrace.dataflow.language.spec import GraphSpec, NodeKind
from headrace.dataflow.planning.arithmetic import groups_from
from headrace.dataflow.planning.roles import copies
from headrace.dataflow.planning.topology import (
    answering,
    cycle,
    leased_table,
    leased_tables,
    members,
    tables,
    trainer_of,
    written_tables,
)
from headrace.services.options import PolicyOptions

NO_COLUMNS = {"trainer": "a trainer", "eval": "an eval", "sink": "a sink"}
"""Kinds of node that nobody can read from."""


def check_references(spec: GraphSpec) -> Iterator[Problem]:
    """Names that nodes refer to."""
    for name, node in spec.nodes.items():
        for source in node.inputs:
            if source not in spec.nodes:
                yield _unknown("node", source, spec.nodes, ("nodes", name, "inputs"))
            elif spec.nodes[source].kind in NO_COLUMNS:
                yield Problem(
                    path=("nodes", name, "inputs"),
                    wrong=f"'{source}' is {NO_COLUMNS[spec.nodes[source].kind]}, which writes no columns",
                    way_out=f"take '{source}' out of the inputs{_weights(spec, source)}",
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


def _weights(spec: GraphSpec, source: str) -> str:
    trains = spec.nodes[source].kind == "trainer"
    return "; weights reach rollouts through the policy" if trains else ""


def check_tables(spec: GraphSpec) -> Iterator[Problem]:
    """Rows of different tables do not meet, and every table has who answers and who learns."""
    for name, node in spec.nodes.items():
        meeting = leased_tables(spec, name)
        if len(meeting) > 1:
            yield Problem(
                path=("nodes", name, "inputs"),
                wrong=f"rows of {len(meeting)} tables meet here: {listing(meeting)}",
                allowed="one table: that of a source, or of a branch",
                way_out="read from nodes of one table; a join brings back what became of a branch",
            )
        elif meeting and node.kind == "join" and not spec.nodes[meeting[0]].inputs:
            yield Problem(
                path=("nodes", name, "inputs"),
                wrong=f"'{meeting[0]}' is a {spec.nodes[meeting[0]].kind}: its rows came of no other row",
                way_out="read from a node whose rows a branch made",
            )
        elif meeting and node.kind == "join":
            yield from _one_group(spec, meeting[0])
    if not spec.of_kind("source"):
        yield _absent(("nodes",), "source", "prompts: {kind: source, dataset: copy}")
    if not any(len(written_tables(spec, name)) > 1 for name in spec.nodes):
        for table in tables(spec):
            yield from _roles_filled(spec, table)


def _one_group(spec: GraphSpec, branch: str) -> Iterator[Problem]:
    """A join writes once, when the group that came of a row is whole."""
    prompts = getattr(spec.nodes[branch].options, "prompts_per_row", 1)
    if copies(spec, branch) or prompts > 1:
        yield Problem(
            path=("nodes", branch, "function" if copies(spec, branch) else "prompts_per_row"),
            wrong="it hands rows on as they are" if copies(spec, branch) else f"got {prompts}",
            allowed="one prompt of a row, where a join brings back what came of it",
            way_out="write a function that makes the prompt"
            if copies(spec, branch)
            else "set samples_per_prompt for several answers to the one prompt",
        )


def _roles_filled(spec: GraphSpec, table: str) -> Iterator[Problem]:
    readers = tables(spec)[table].readers
    rollouts, trainers = members(spec, table, "rollout"), members(spec, table, "trainer")
    if not rollouts and not copies(spec, table):
        example = f"answers: {{kind: rollout, inputs: [{table}], policy: {next(iter(spec.policies))}}}"
        yield _absent(("nodes", table), "rollout", example, f" reads '{table}'")
    elif not trainers and not _serves_others(spec, readers):
        example = f"learn: {{kind: trainer, inputs: [{listing(readers)}], algorithm: grpo, ...}}"
        yield _absent(("nodes", table), "trainer", example, f" learns from the rows of '{table}'")
    for role, names in (("train on", trainers), ("answer", rollouts)):
        if len(names) > 1:
            kind = spec.nodes[names[0]].kind
            yield Problem(
                path=("nodes", names[-1]),
                wrong=f"{listing(names)} {role} the same rows of '{table}'",
                allowed=f"one {kind} in each table",
                way_out=f"give the second one a table of its own: a branch before the second {kind}",
            )


def _serves_others(spec: GraphSpec, readers: Sequence[str]) -> bool:
    """Whether rows that nobody trains on go on into other tables."""
    return any(spec.nodes[name].kind in ("branch", "join") for name in readers) and bool(
        spec.of_kind("trainer")
    )


def check_policies(spec: GraphSpec) -> Iterator[Problem]:
    """A trainer trains the policy that made its rows, no policy has two, and every policy is used."""
    used = {node.policy for node in spec.nodes.values()}
    for name in spec.policies:
        if name not in used:
            yield Problem(
                path=("policies", name),
                wrong=f"no node uses the policy '{name}'",
                way_out="remove it, or name it in a node",
                severity="warning",
            )
    yield from _trained_twice(spec)
    yield from _idle_optimizers(spec)
    for name, node in spec.of_kind("trainer").items():
        table = str(leased_table(spec, name))
        makers = {r: spec.nodes[r].policy for r in members(spec, table, "rollout")}
        maker = answering(spec, table)
        if not makers and maker is not None and node.policy == spec.nodes[maker].policy:
            yield Problem(
                path=("nodes", name, "policy"),
                wrong=f"it trains '{node.policy}' on copies of its own answers, which no bound on staleness "
                "holds",
                way_out="read from where the answers are made, without the branch between",
            )
        if makers and node.policy not in makers.values():
            maker, made_by = next(iter(makers.items()))
            yield Problem(
                path=("nodes", name, "policy"),
                wrong=f"it trains '{node.policy}' on the answers of '{made_by}' (from {maker})",
                allowed=listing(map(str, makers.values())),
                way_out=f"write policy: {made_by}, or put a branch without a function between: it hands rows "
                "on to another policy's trainer",
            )


def _trained_twice(spec: GraphSpec) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for name, node in spec.of_kind("trainer").items():
        other = first.setdefault(str(node.policy), name)
        if other != name:
            yield Problem(
                path=("nodes", name, "policy"),
                wrong=f"{other} trains '{node.policy}' too",
                allowed="one trainer for each policy",
                way_out="add a policy of the same model and seed for the second one, or remove it",
            )


def _idle_optimizers(spec: GraphSpec) -> Iterator[Problem]:
    known = keys(PolicyOptions)
    for name, policy in spec.policies.items():
        if trainer_of(spec, name) is None:
            for key in ("optimizer", "staleness", "freeze"):
                if getattr(policy, key) != known[key].default:
                    yield idle(("policies", name, key), f"no trainer names '{name}'", "remove it")


def check_together(spec: GraphSpec) -> Iterator[Problem]:
    """Barriers and freezes: what holds policies together or still."""
    for index, group in enumerate(spec.barrier):
        path = ("barrier", str(index))
        trained = {policy: trainer_of(spec, policy) for policy in group}
        for policy, trainer in trained.items():
            if policy not in spec.policies:
                yield _unknown("policy", policy, spec.policies, path)
            elif trainer is None:
                yield Problem(
                    path=path,
                    wrong=f"no trainer names '{policy}', so it has no steps to keep pace in",
                    way_out="take it out of the barrier",
                )
        if len(trained) < 2:
            yield Problem(
                path=path, wrong="a barrier of one policy", allowed="two or more", way_out="name the others"
            )
        elif None not in trained.values():
            yield from _keeps_pace(spec, [str(trainer) for trainer in trained.values()], path)
    for name, policy in spec.policies.items():
        yield from _freezes(spec, name, policy)


def _keeps_pace(spec: GraphSpec, trainers: Sequence[str], path: Path) -> Iterator[Problem]:
    steps = {name: spec.steps_of(name) for name in trainers}
    if len(set(steps.values())) > 1:
        told = ", ".join(f"{name} {count}" for name, count in steps.items())
        yield Problem(
            path=path,
            wrong=f"its trainers take different numbers of steps: {told}",
            way_out="give them the same steps, or take the barrier out",
        )
    for child in trainers:
        table = str(leased_table(spec, child))
        for above in trainers:
            given = groups_from(spec, str(leased_table(spec, above)), table)
            asked = spec.nodes[child].options.prompts_per_step
            if given is not None and given != asked:
                yield Problem(
                    path=("nodes", child, "prompts_per_step"),
                    wrong=f"got {asked}: a step of {above} makes {given} prompts of '{table}', and the "
                    "barrier keeps both to one step at a time, so each would wait for the other for ever",
                    allowed=str(given),
                    way_out="set it so, or take the barrier out",
                )


def _freezes(spec: GraphSpec, name: str, policy: PolicyOptions) -> Iterator[Problem]:
    trainer = trainer_of(spec, name)
    for index, (first, last) in enumerate(policy.freeze):
        path = ("policies", name, "freeze", str(index))
        if first >= last:
            yield Problem(
                path=path,
                wrong=f"from step {first} to before step {last} there is none",
                allowed="the first below the second",
                way_out="turn them round, or remove it",
            )
        elif trainer is not None and first >= spec.steps_of(trainer):
            yield idle(path, f"{trainer} takes {spec.steps_of(trainer)} steps", "remove it, or raise steps")


def _unknown(what: str, name: str, known: Mapping[str, object], path: Path) -> Problem:
    return Problem(
        path=path,
        wrong=f"there is no {what} '{name}'",
        allowed=listing(known),
        way_out=suggestion(name, known, otherwise=f"name one of these, or add a {what} '{name}'"),
    )


def _absent(path: Path, kind: NodeKind, example: str, purpose: str = "") -> Problem:
    return Problem(path=path, wrong=f"no {kind}{purpose}", way_out=f"add one: {example}")
