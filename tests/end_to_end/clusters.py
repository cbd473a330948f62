"""Clusters of several Ray nodes on this machine, each with folders of its own."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ray.cluster_utils import Cluster

SOON_DEAD = {
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 4,
    "health_check_timeout_ms": 120_000,
}
"""A node whose process is gone is known to be within seconds; one that is slow is given its time."""
STORE_BYTES = 80 << 20


@contextmanager
def cluster(*nodes: dict[str, float]) -> Iterator[Cluster]:
    """A node of one core for the launcher, and one for each of `nodes`, which says its own resources."""
    scratch = tempfile.mkdtemp(prefix="hr-cluster-", dir="/tmp")
    common: dict[str, Any] = {"object_store_memory": STORE_BYTES, "temp_dir": scratch}
    made = Cluster()
    try:
        head = {"resources": {"head": 8}, "include_dashboard": False, "_system_config": SOON_DEAD}
        made.add_node(num_cpus=1, **head, **common)
        for resources in nodes:
            made.add_node(num_cpus=1, resources=resources, **common)
        yield made
    finally:
        made.shutdown()
        shutil.rmtree(scratch, ignore_errors=True)
