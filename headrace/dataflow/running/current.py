"""The graph as a launch runs it now: as it was launched, with what was asked of it since."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.dataflow.check import check
from headrace.dataflow.language.problems import errors
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.plan import Plan, plan
from headrace.dataflow.running.asks import Refusal
from headrace.services.host import Assignment

Tell = Callable[[GraphSpec, Plan], Sequence[Assignment]]
"""What the replicas of a graph are told by this launch."""


class Current:
    """`spec` is what runs; `began` what was launched."""

    def __init__(self, spec: GraphSpec, *, cluster: Cluster, tell: Tell) -> None:
        """`cluster`: that of the plan; a process that is on it cannot ask anew."""
        self.spec = self.began = spec
        self.cluster = cluster
        self._tell = tell

    def plan(self, spec: GraphSpec) -> Plan:
        return plan(spec, self.cluster)

    def told(self, spec: GraphSpec) -> dict[str, Assignment]:
        """To the first replica of each node."""
        return {each.node: each for each in reversed(self._tell(spec, self.plan(spec)))}

    def require(self, spec: GraphSpec) -> None:
        """Raises Refusal where `check` finds an error."""
        if wrong := errors(check(spec, cluster=self.cluster)):
            raise Refusal("; ".join(map(str, wrong)))

    def trainers(self) -> Mapping[str, str]:
        """Policies by the nodes that train them."""
        return {name: str(node.policy) for name, node in self.spec.of_kind("trainer").items()}

    def with_options(self, node: str, **options: Any) -> GraphSpec:
        found = self.spec.nodes[node]
        changed = replace(found, options=replace(found.options, **options))
        return replace(self.spec, nodes={**self.spec.nodes, node: changed})

    def with_staleness(self, staleness: float, policy: str | None) -> GraphSpec:
        """Of one policy, or of the run."""
        if policy is None:
            return replace(self.spec, staleness=staleness)
        if policy not in self.spec.policies:
            raise Refusal(f"there is no policy {policy!r}; there are {', '.join(self.spec.policies)}")
        own = replace(self.spec.policies[policy], staleness=staleness)
        return replace(self.spec, policies={**self.spec.policies, policy: own})
