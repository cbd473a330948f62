"""What replicas reserve on a cluster: each by itself, or those of a service together in a placement group.

Invariant: a group is made once per service, with a bundle for each replica that the graph asks for; one that
comes later, on a live run, finds its own place. A bundle that is lost with its node is made again elsewhere.
"""

import asyncio
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import (
    NodeLabelSchedulingStrategy,
    NotIn,
    PlacementGroupSchedulingStrategy,
)

from headrace.dataflow.checks.placement import reserved
from headrace.services.errors import ReplicaFailed
from headrace.services.host import Assignment
from headrace.services.options import Placed

NODE_ID_LABEL = "ray.io/node-id"
"""That Ray gives every node."""


class Groups:
    """Of one launch."""

    def __init__(self) -> None:
        self._made: dict[str, PlacementGroup] = {}

    async def place(self, assignment: Assignment, timeout_s: float) -> dict[str, Any]:
        """Options of the actor that a replica is. Raises ReplicaFailed where there is no room for a group."""
        placed: Placed = assignment.options
        actor = {"num_cpus": placed.cpus, "num_gpus": placed.gpus, "resources": dict(placed.resources)}
        if placed.placement is None or assignment.index >= placed.replicas:
            return actor | ({"scheduling_strategy": elsewhere(assignment.avoid)} if assignment.avoid else {})
        group = self._made.get(assignment.node)
        if group is None:
            group = self._made[assignment.node] = placement_group(
                [reserved(placed) for _ in range(placed.replicas)], strategy=placed.placement.upper()
            )
        try:
            async with asyncio.timeout(timeout_s):
                await group.ready()
        except TimeoutError:
            raise ReplicaFailed(
                f"{assignment.replica}: no room for {placed.replicas} times {room_for(placed)} within "
                f"{timeout_s:g} s, placement: {placed.placement}; free resources, or ask for less"
            ) from None
        where = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=assignment.index)
        return {**actor, "scheduling_strategy": where}

    def close(self) -> None:
        """Gives back what groups hold."""
        for group in self._made.values() if ray.is_initialized() else ():
            remove_placement_group(group)


def elsewhere(node: str) -> NodeLabelSchedulingStrategy:
    """Not on that node, where another has room."""
    return NodeLabelSchedulingStrategy(hard={}, soft={NODE_ID_LABEL: NotIn(node)})


def room_for(placed: Placed) -> str:
    """What a replica reserves, in words."""
    own = "".join(f", {amount:g} {name}" for name, amount in placed.resources.items())
    return f"its {placed.cpus:g} cpus, {placed.gpus:g} gpus{own}"
