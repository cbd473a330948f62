"""Whether what the nodes reserve is there, before anything waits for it in silence."""

from collections.abc import Iterator
from typing import Literal

from headrace.dataflow.checks.idle import idle
from headrace.dataflow.language.problems import Problem
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.memory import in_words, memory
from headrace.dataflow.planning.topology import services
from headrace.services.kinds import kind_of
from headrace.services.options import Placed


def check_runtime(spec: GraphSpec) -> Iterator[Problem]:
    """What the runtime cannot do or would ignore."""
    for name, node in services(spec).items():
        single = kind_of(node.kind).is_single
        if single and node.options.replicas > 1:
            yield Problem(
                path=("nodes", name, "replicas"),
                wrong=f"got {node.options.replicas} for a {node.kind}: {single}",
                allowed="1",
                way_out="remove it",
            )
        yield from _autoscale(name, node.options, single and f"a {node.kind}: {single}")
        yield from _on_failure(spec, name, node.options)
        reserved = [key for key in ("cpus", "resources", "placement") if getattr(node.options, key)]
        if spec.runtime == "local" and reserved:
            why = "the local runtime reserves nothing"
            yield idle(("nodes", name, reserved[0]), why, "remove it, or set runtime: ray")
    if spec.ray_address is not None and spec.ray_address.startswith("ray://"):
        yield Problem(
            path=("ray_address",),
            wrong="got ray://, and the launcher keeps rows in the memory of a node of the cluster",
            allowed="auto, or HOST:PORT",
            way_out="run on a node of it with auto, or send the command: ray job submit -- headrace run ...",
        )
    if spec.runtime == "local" and spec.ray_address is not None:
        yield Problem(
            path=("ray_address",),
            wrong="no effect: the runtime is local",
            way_out="remove it, or set runtime: ray",
        )


def _autoscale(name: str, options: Placed, single: str) -> Iterator[Problem]:
    """Bounds that its replicas cannot keep; `single`: why it has one."""
    asked, path = options.autoscale, ("nodes", name, "autoscale")
    if asked is None:
        return
    if single:
        yield Problem(path=path, wrong=f"no effect on {single}", way_out="remove it")
    elif not asked.min <= options.replicas <= asked.max:
        yield Problem(
            path=path,
            wrong=f"min {asked.min} and max {asked.max} do not hold replicas, {options.replicas}",
            allowed="min <= replicas <= max",
            way_out="set replicas to what the run is to begin with",
        )


def _on_failure(spec: GraphSpec, name: str, options: Placed) -> Iterator[Problem]:
    """Ways to go on after a failure that there are not."""
    path, policy = ("nodes", name, "on_failure"), options.on_failure
    if policy == "degrade" and options.replicas == 1:
        yield Problem(
            path=path,
            wrong="no effect: with one replica there are no others to go on with",
            way_out="set replicas to 2 or more, or remove it",
        )
    if policy == "replace" and (spec.runtime == "local" or spec.ray_address is None):
        yield Problem(
            path=path,
            wrong="no effect: the run has one node, and there is no other to start a replica on",
            way_out="set ray_address to a cluster of several nodes, or use restart",
        )
    limit_s = options.stalled_after_s
    if limit_s is not None and limit_s > spec.no_progress_timeout_s:
        yield Problem(
            path=("nodes", name, "stalled_after_s"),
            wrong=f"{limit_s:g} s is longer than the run goes on without progress, "
            f"{spec.no_progress_timeout_s:g} s",
            allowed=f"at most {spec.no_progress_timeout_s:g}",
            way_out="lower it, or raise no_progress_timeout_s",
        )


def check_resources(spec: GraphSpec, cluster: Cluster) -> Iterator[Problem]:
    """Reservations beyond the cluster, and threads beyond a machine's cores."""
    yield from _beyond(spec, "cpus", cluster.cpus)
    yield from _beyond(spec, "gpus", cluster.gpus)
    yield from check_memory(spec, cluster.memory_bytes)
    yield from check_shared_memory(spec, cluster.shared_bytes)
    for name, node in services(spec).items():
        if node.options.threads is not None and node.options.threads > cluster.cores:
            yield Problem(
                path=("nodes", name, "threads"),
                wrong=f"{node.options.threads} threads on {cluster.cores} cores slow each other down",
                allowed=f"at most {cluster.cores}",
                way_out="lower it, or leave it out for one thread per core",
                severity="warning",
            )


def check_memory(spec: GraphSpec, there: int | None) -> Iterator[Problem]:
    """A run that is reckoned to need more than the machine has."""
    needed = None if there is None else memory(spec)
    if there is None or needed is None or needed.total_bytes <= there:
        return
    largest = max(
        needed.replicas, key=lambda name: needed.of_service(name) * spec.nodes[name].options.replicas
    )
    parts = needed.replicas[largest]
    told = ", ".join(f"{part} {in_words(parts[part])}" for part in sorted(parts, key=parts.__getitem__)[::-1])
    yield Problem(
        path=("nodes", largest),
        wrong=f"the run is reckoned to need {in_words(needed.total_bytes)}, the machine has "
        f"{in_words(there)}; most of it a replica of '{largest}': {told}",
        way_out="choose a smaller model, dtype: bfloat16, or lower micro_batch_tokens, max_concurrent or "
        "replicas; `headrace plan` shows all parts",
        severity="warning",
    )


def check_shared_memory(spec: GraphSpec, there: int | None) -> Iterator[Problem]:
    """Weights and rows beyond what a container, most of all, has for them."""
    needed = None if there is None else memory(spec)
    if there is None or needed is None or needed.shared_bytes <= there:
        return
    parts = {name: size for name, size in needed.beside.items() if " of " in name}
    told = ", ".join(f"{part} {in_words(parts[part])}" for part in sorted(parts, key=parts.__getitem__)[::-1])
    held = needed.shared_bytes - sum(parts.values())
    yield Problem(
        path=("nodes",),
        wrong=f"shared memory is reckoned to take {in_words(needed.shared_bytes)}, /dev/shm has "
        f"{in_words(there)}: {told}"
        + (f", and the versions that replicas hold {in_words(held)}" if held else ""),
        way_out="give it more (docker run --shm-size), choose dtype: bfloat16, lower staleness or replicas, "
        "or keep rows on the disk with queue: {durability: disk}",
        severity="warning",
    )


def _beyond(spec: GraphSpec, resource: Literal["cpus", "gpus"], there: float) -> Iterator[Problem]:
    asked = {
        name: (node.options.most_replicas, getattr(node.options, resource))
        for name, node in services(spec).items()
    }
    total = sum(replicas * each for replicas, each in asked.values())
    if total > there:
        shares = ", ".join(
            f"{name} {replicas} x {each:g}" for name, (replicas, each) in asked.items() if each
        )
        yield Problem(
            path=("nodes",),
            wrong=f"asked {total:g} {resource}, the cluster has {there:g}, by service: {shares}",
            way_out=f"lower replicas or {resource}",
        )
