"""Keys of every node that is a service."""

from dataclasses import dataclass

from headrace.algorithms.bounds import Count, NonNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Keys that every node has."""

    replicas: Count = 1
    """Copies of the service, each a process of its own."""
    threads: Count | None = None
    """Compute threads of a replica; None: the cores, shared by the replicas that compute at the same time."""
    cpus: NonNegative = 0.0
    """Cores reserved for a replica on the cluster; 0: it shares."""
    gpus: NonNegative = 0.0
    """GPUs reserved for a replica on the cluster."""
