"""The builder: a graph written in Python, handle by handle.

    graph = Graph("copy", staleness=1, steps=120)
    actor = graph.policy("actor", model="tiny-copier", optimizer={"lr": 1e-3})
    prompts = graph.source("prompts", dataset="copy", samples_per_prompt=8)
    answers = graph.rollout(prompts, policy=actor, max_new_tokens=5)
    scores = graph.reward(answers, verifier="copy")
    graph.trainer(actor, inputs=[answers, scores], algorithm="grpo", prompts_per_step=32)
    graph.run()

An edge exists because a handle was passed, and nothing is built before `run`. Options are those of
`headrace.services.options`, as keywords or plain mappings; a wrong one is refused where it is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from headrace.dataflow.language.convert import INVALID
from headrace.dataflow.language.fields import keys
from headrace.dataflow.language.problems import GraphError, Problem, errors, listing
from headrace.dataflow.language.spec import GraphSpec, NodeKind, NodeSpec
from headrace.dataflow.language.tree import from_tree, node_from_tree, policy_from_tree
from headrace.services.options import PolicyOptions

if TYPE_CHECKING:
    from headrace.dataflow.language.layer import Layer
    from headrace.dataflow.planning.cluster import Cluster
    from headrace.dataflow.planning.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Handle of a policy of `graph`."""

    graph: "Graph" = field(repr=False)
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Handle of a node of `graph`: pass it as an input to make an edge."""

    graph: "Graph" = field(repr=False)
    name: str
    kind: NodeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Included:
    """Handles of what an included graph has, by the names that it gives them itself."""

    nodes: Mapping[str, Node]
    policies: Mapping[str, Policy]


Inputs = Node | Sequence[Node]


class Graph:
    """Collects policies and nodes; `spec()` is the same as what the YAML would give."""

    def __init__(self, name: str, **settings: Any) -> None:
        """`settings`: the other top-level keys of a graph (steps, seed, staleness, runtime, ...)."""
        self._settings = {"name": name, **settings}
        self._policies: dict[str, PolicyOptions] = {}
        self._nodes: dict[str, NodeSpec] = {}
        self._under: Layer | None = None
        """What is included; the rest lies over it."""

    @classmethod
    def of(cls, spec: GraphSpec) -> Self:
        """A graph that is `spec`, to go on from."""
        settings = {
            name: getattr(spec, name) for name in keys(GraphSpec) if name not in ("policies", "nodes")
        }
        graph = cls(**settings)
        graph._policies.update(spec.policies)
        graph._nodes.update(spec.nodes)
        return graph

    def include(
        self, graph: str | Path, *, as_: str | None = None, set: Mapping[str, Any] | None = None
    ) -> Included:
        """Takes another graph, or a part of one, in: the entry of an `include` in YAML.

        `graph`: a shipped name, or a file's path; `as_`: a prefix of its names; `set`: values by dotted key,
        set in it first, None to unset or take out. The settings of this graph go before those included.
        Raises GraphError for what cannot be read or set, and for names that are taken.
        """
        from headrace.dataflow.language.include import Include, nothing, taken_in
        from headrace.dataflow.language.overrides import written_kind

        entry = Include(graph=str(graph), as_=as_, set=dict(set or {}))
        under, names = taken_in(entry, under=self._under or nothing(), folder=Path.cwd())
        for section, own in (("nodes", self._nodes), ("policies", self._policies)):
            for name in names[section].values():
                self._refuse_taken(section, name, own)
        self._under = under
        return Included(
            nodes={
                name: Node(graph=self, name=full, kind=written_kind(under.tree["nodes"][full]) or "")
                for name, full in names["nodes"].items()
            },
            policies={name: Policy(graph=self, name=full) for name, full in names["policies"].items()},
        )

    def policy(self, name: str, *, model: str, **options: Any) -> Policy:
        """A model; `options` are the keys of PolicyOptions."""
        problems: list[Problem] = []
        made = policy_from_tree({"model": model, **options}, ("policies", name), problems)
        self._add("policies", self._policies, name, made, problems)
        return Policy(graph=self, name=name)

    def node(
        self, kind: NodeKind, name: str, *, inputs: Inputs = (), policy: Policy | None = None, **options: Any
    ) -> Node:
        """A node of any kind; `options` are the keys of its kind in YAML."""
        edges = self._edges(inputs, policy)
        problems: list[Problem] = []
        made = node_from_tree({"kind": kind, **edges, **options}, ("nodes", name), problems)
        self._add("nodes", self._nodes, name, made, problems)
        return Node(graph=self, name=name, kind=kind)

    def source(self, name: str = "prompts", **options: Any) -> Node:
        """Prompts, one row per sample to come; `options` are the keys of SourceOptions."""
        return self.node("source", name, **options)

    def rollout(self, inputs: Inputs, *, policy: Policy, name: str = "answers", **options: Any) -> Node:
        """Answers by the policy's newest weights; `options` are the keys of RolloutOptions."""
        return self.node("rollout", name, inputs=inputs, policy=policy, **options)

    def reward(self, inputs: Inputs, *, name: str = "scores", **options: Any) -> Node:
        """Scores of answers; `options` are the keys of RewardOptions."""
        return self.node("reward", name, inputs=inputs, **options)

    def judge(self, inputs: Inputs, *, name: str = "judge", **options: Any) -> Node:
        """Scores of answers by a model behind an endpoint; `options` are the keys of JudgeOptions."""
        return self.node("judge", name, inputs=inputs, **options)

    def reference(self, inputs: Inputs, *, policy: Policy, name: str = "reference", **options: Any) -> Node:
        """Log-probabilities under the policy's initial weights; `options`: ReferenceOptions."""
        return self.node("reference", name, inputs=inputs, policy=policy, **options)

    def teacher(self, inputs: Inputs, *, policy: Policy, name: str = "teacher", **options: Any) -> Node:
        """Log-probabilities under another policy; `options`: TeacherOptions."""
        return self.node("teacher", name, inputs=inputs, policy=policy, **options)

    def critic(self, inputs: Inputs, *, policy: Policy, name: str = "critic", **options: Any) -> Node:
        """Values of the answers' tokens under another policy; `options`: CriticOptions."""
        return self.node("critic", name, inputs=inputs, policy=policy, **options)

    def filter(self, inputs: Inputs, *, name: str = "filter", **options: Any) -> Node:
        """Rows that a function of yours lets pass; `options` are the keys of RowFilterOptions."""
        return self.node("filter", name, inputs=inputs, **options)

    def transform(self, inputs: Inputs, *, name: str = "transform", **options: Any) -> Node:
        """Columns by a pure function of others; `options` are the keys of TransformOptions."""
        return self.node("transform", name, inputs=inputs, **options)

    def branch(self, inputs: Inputs, *, name: str, **options: Any) -> Node:
        """Prompts of a table of its own, named `name`, made from rows; `options`: BranchOptions."""
        return self.node("branch", name, inputs=inputs, **options)

    def join(self, inputs: Inputs, *, name: str = "join", **options: Any) -> Node:
        """A number for each row that a branch started from; `options` are the keys of JoinOptions."""
        return self.node("join", name, inputs=inputs, **options)

    def eval(self, policy: Policy, *, name: str = "eval", **options: Any) -> Node:
        """Scores of exact versions of `policy` on prompts of their own; `options`: EvalOptions."""
        return self.node("eval", name, policy=policy, **options)

    def sink(self, inputs: Inputs, *, name: str = "sink", **options: Any) -> Node:
        """Files with the rows of its inputs; `options` are the keys of SinkOptions."""
        return self.node("sink", name, inputs=inputs, **options)

    def trainer(self, policy: Policy, *, inputs: Inputs, name: str = "learn", **options: Any) -> Node:
        """Turns whole groups into new versions of `policy`; `options` are the keys of TrainerOptions."""
        return self.node("trainer", name, inputs=inputs, policy=policy, **options)

    def spec(self) -> GraphSpec:
        """The graph as data. Raises GraphError when a setting is unknown or of a wrong type."""
        if self._under is not None:
            from headrace.dataflow.language.parse import from_layers

            return from_layers(self._under, self._own())
        spec, problems = from_tree(self._own())
        if spec is None:
            raise GraphError(problems)
        return spec

    def _own(self) -> dict[str, Any]:
        return {**self._settings, "policies": self._policies, "nodes": self._nodes}

    def check(self, *, cluster: "Cluster | None" = None) -> list[Problem]:
        """Everything wrong or doubtful; resources are checked when a cluster is given."""
        from headrace.dataflow.check import check

        return check(self.spec(), cluster=cluster)

    def plan(self, *, cluster: "Cluster | None" = None) -> "Plan":
        """What would run where, on `cluster` or this machine. Raises GraphError as checks find errors."""
        from headrace.dataflow.planning.cluster import this_machine
        from headrace.dataflow.planning.plan import plan

        self._refuse_errors(cluster)
        return plan(self.spec(), cluster or this_machine())

    def draw(self) -> str:
        """The graph as text for a terminal."""
        from headrace.dataflow.planning.draw import draw_text

        return draw_text(self.spec())

    def to_yaml(self, *, resolved: bool = False) -> str:
        """YAML that parses to the same spec; `resolved` writes every default out."""
        from headrace.dataflow.language.parse import to_yaml

        return to_yaml(self.spec(), resolved=resolved)

    def run(self, *, output: Path | None = None, resume: Path | None = None) -> int:
        """Checks, launches, waits; returns the exit code (0: the run ended as asked)."""
        from headrace.dataflow.running.launch import launch

        self._refuse_errors(None)
        return launch(self.spec(), output=output, resume=resume)

    def _refuse_errors(self, cluster: "Cluster | None") -> None:
        from headrace.dataflow.check import check, check_here

        problems = check(self.spec(), cluster=cluster) if cluster else check_here(self.spec())
        if errors(problems):
            raise GraphError(problems)

    def _edges(self, inputs: Inputs, policy: Policy | None = None) -> dict[str, Any]:
        nodes = [inputs] if isinstance(inputs, Node) else list(inputs)
        for handle in [*nodes, *([policy] if policy else [])]:
            if handle.graph is not self:
                raise GraphError(
                    [
                        Problem(
                            path=(handle.name,),
                            wrong=f"'{handle.name}' is a handle of another graph",
                            way_out="pass handles that this graph made",
                        )
                    ]
                )
        return {
            **({"inputs": [node.name for node in nodes]} if nodes else {}),
            **({"policy": policy.name} if policy else {}),
        }

    def _add(self, section: str, own: dict[str, Any], name: str, made: Any, problems: list[Problem]) -> None:
        self._refuse_taken(
            section, name, {**(self._under.tree.get(section, {}) if self._under else {}), **own}
        )
        if problems:
            raise GraphError(problems)
        assert made is not INVALID
        own[name] = made

    def _refuse_taken(self, section: str, name: str, taken: Mapping[str, Any]) -> None:
        if name in taken:
            wrong, way_out = f"the name '{name}' is taken", f"pass another name; taken are {listing(taken)}"
            raise GraphError([Problem(path=(section, name), wrong=wrong, way_out=way_out)])
