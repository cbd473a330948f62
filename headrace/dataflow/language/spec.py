"""What a run is, as data: policies, nodes and how far generation may run ahead.

One `GraphSpec` has two writings, YAML (`parse.py`) and the builder (`graph.py`). Both are made through
`tree.py`, so a spec that they hand out has known keys and right types.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from headrace.algorithms.bounds import Count, Natural, Positive, Range
from headrace.services.kinds import KINDS
from headrace.services.options import PolicyOptions, QueueOptions, Tracker

NodeKind = str
"""A kind of `headrace.services.kinds`, or the path of a class of the user's own."""
NodeOptions = Any
"""The dataclass that the kind asks for."""

OPTIONS: Final[dict[NodeKind, type[Any]]] = {name: kind.options for name, kind in KINDS.items()}
"""The kinds of ours and the classes of their options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One node of the graph. In YAML the keys of `options` stand beside `kind`.

    Which kinds have inputs and a policy of their own says `headrace.services.kinds`.
    """

    kind: NodeKind
    """What the node does: one of ours, or `path/to/file.py:Class` of your own."""
    inputs: tuple[str, ...] = ()
    """Names of the nodes whose columns it reads."""
    policy: str | None = None
    """Name of the policy it serves, scores under or trains."""
    options: NodeOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSpec:
    """A run. The values are those written or defaulted; nothing is resolved for a machine yet."""

    name: str
    """Name of the run and of its folder under runs/."""
    seed: Natural = 0
    """Seed of data order, initial weights and sampling."""
    staleness: Annotated[float, Range(ge=0, infinite=True)] = 0.0
    """How far generation may run ahead of learning, in batches: 0 is synchronous, inf has no bound."""
    steps: Count
    """Training steps of the whole run."""
    deterministic: bool = False
    """Whether the run's weights follow from the graph alone, bit for bit, whatever its services live through:
    each group is decoded by itself, and a step begins when its batch is whole. Needs staleness 0."""
    runtime: Literal["ray", "local"] = "ray"
    """Where services run: supervised Ray processes, or tasks of one process for debugging."""
    no_progress_timeout_s: Positive = 300.0
    """Seconds without a training step after which the run fails, naming who owes what."""
    max_restarts: Natural = 3
    """Times a replica is restarted before its service counts as failed."""
    ray_address: str | None = None
    """Address of an existing Ray cluster; null: one is started on this machine and stopped at the end."""
    drills: bool = False
    """Whether `headrace inject` may have things go wrong, to see what the run makes of it."""
    trackers: tuple[Tracker, ...] = ()
    """Where figures go besides the run's own records; one that fails is said, and the run goes on."""
    queue: QueueOptions = field(default_factory=QueueOptions)
    """How rows are kept."""
    barrier: tuple[tuple[str, ...], ...] = ()
    """Groups of policies that learn in step: a trainer begins a step once all of its group are there."""
    policies: dict[str, PolicyOptions] = field(default_factory=dict)
    """The models, by name."""
    nodes: dict[str, NodeSpec] = field(default_factory=dict)
    """The services, by name, in any order."""

    def of_kind(self, *kinds: NodeKind) -> dict[str, NodeSpec]:
        return {name: node for name, node in self.nodes.items() if node.kind in kinds}

    def staleness_of(self, policy: str) -> float:
        """How far a policy's generation may run ahead."""
        own = self.policies[policy].staleness
        return self.staleness if own is None else own

    def steps_of(self, trainer: str) -> int:
        """Training steps of a trainer's policy."""
        return self.nodes[trainer].options.steps or self.steps
