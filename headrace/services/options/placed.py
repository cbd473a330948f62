"""Keys of every node that is a service."""

from dataclasses import dataclass, field
from typing import Literal

from headrace.algorithms.bounds import Count, NonNegative, Positive, PositiveShare

STALLED = 0.5
"""Share of the run's longest time without progress after which a replica counts as wedged: its replacement
has the rest."""
STALLED_LEAST_S = 30.0
"""A process on a busy machine may be silent for a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscaleOptions:
    """How many replicas a service may have, and how busy they are to be."""

    min: Count = 1
    """Fewest replicas."""
    max: Count
    """Most replicas."""
    target: PositiveShare = 0.8
    """Share of their time that replicas work where their number is right: above it, and with rows that wait,
    there come to be more, below it fewer."""
    cool_down_s: Positive = 60.0
    """Seconds from one change to the next, and for which a service has to be idler before it has fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Keys that every node has."""

    replicas: Count = 1
    """Copies of the service, each a process of its own."""
    autoscale: AutoscaleOptions | None = None
    """Have their number follow how busy they are, between two bounds, beginning with `replicas`. None: it
    stays, unless somebody scales the service."""
    threads: Count | None = None
    """Compute threads of a replica; None: the cores, shared by the replicas that compute at the same time."""
    cpus: NonNegative = 0.0
    """Cores reserved for a replica on the cluster; 0: it shares."""
    gpus: NonNegative = 0.0
    """GPUs reserved for a replica on the cluster, below 1 a share of one; its model runs there. 0: on the
    CPU."""
    resources: dict[str, Positive] = field(default_factory=dict)
    """Resources of the cluster's own, by name, reserved for a replica, as {big_memory: 1}."""
    placement: Literal["pack", "spread"] | None = None
    """Reserve for all replicas at once, on as few nodes of the cluster as can be, or on as many; null: each
    where there is room."""
    on_failure: Literal["restart", "replace", "degrade", "stop"] = "restart"
    """What follows when a replica fails: it is started again after a pause, at most max_restarts times in a
    row; or so on another node of the cluster; or the others go on without it, and the last one is started
    again; or the run ends with the cause."""
    stalled_after_s: Positive | None = None
    """Seconds in which a replica makes nothing of the work that it holds, after which it is ended as wedged;
    None: half of no_progress_timeout_s, all of it for a trainer or an eval, and at least 30."""

    def stall_limit_s(self, no_progress_timeout_s: float) -> float:
        """`stalled_after_s`, resolved."""
        return self.stalled_after_s or self.longest_work_s(no_progress_timeout_s)

    @property
    def most_replicas(self) -> int:
        return self.replicas if self.autoscale is None else self.autoscale.max

    def longest_work_s(self, no_progress_timeout_s: float) -> float:
        """Seconds that work may take before something comes of it, where the user does not say."""
        return max(STALLED * no_progress_timeout_s, STALLED_LEAST_S)
