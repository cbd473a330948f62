"""Processes of a run and the memory that they take together, on the machine that runs them all.

An estimate whose parts have names; `footprint.py` says what a replica's are. Not counted: what a user's own
code takes, and pages of files that the system may drop.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.arithmetic import step_plan
from headrace.dataflow.planning.footprint import (
    MIB,
    MODEL_PROCESS,
    VLLM_PROCESS,
    Load,
    Parts,
    footprint,
    holds_a_version,
    kept_aside,
    on_gpu,
    ranks,
    runs_model,
    runs_vllm,
    version_size,
)
from headrace.dataflow.planning.lengths import prompt_tokens
from headrace.dataflow.planning.precision import settled
from headrace.dataflow.planning.roles import held_columns
from headrace.dataflow.planning.topology import leased_table, policy_of, services, tables, trainer_of
from headrace.services.models.base import ModelSize
from headrace.services.models.size import size
from headrace.services.options import PythonVerifier, ReasoningGymVerifier
from headrace.services.weights import KEPT_VERSIONS
from headrace.transferqueue.schema import Column

VERIFIER, GYM = 20 * MIB, 70 * MIB
"""Private memory of a verifier's process, and what reasoning-gym adds to it."""
LAUNCHER, QUEUE, RAY, LIBRARIES = 130 * MIB, 75 * MIB, 370 * MIB, 175 * MIB
"""Private memory of the launcher, of the queue's controller and of an embedded Ray's own processes, and the
pages of libraries that all share; measured with those of `footprint.py`."""
GIB = 1 << 30
RAY_PROCESSES = 8
"""Of an embedded Ray: its store of states, node, monitors and agents, and a worker held ready."""
TEXT_BYTES, ROW_BYTES = 64, 256
"""Reckoned with for a cell of text or JSON, and for what the queue knows of a row."""
NUMBERS: dict[str, int] = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "int64": 8,
    "float32": 4,
    "float64": 8,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes and processes of a run, by what they are of."""

    processes: Mapping[str, int]
    """Of each service: its replicas, each with the process of its verifier where it has one; and `launcher`,
    `queue` and `ray`."""
    replicas: Mapping[str, Parts]
    """Of one replica of each service: bytes by `process`, `weights`, `copies`, `gradients`, `moments`,
    `snapshot`, `cache`, `activations`, `verifier`, and `ranks`: of a trainer's others, each as its own but
    for the snapshot, which shards and shares of layers make less, and of vLLM's on GPUs, which hold its
    weights and its cache."""
    on_gpus: Mapping[str, Parts]
    """Of each card of a replica of each service that has some: bytes by the same names. vLLM's, which takes
    `gpu_memory_utilization` of a card, are left out."""
    beside: Mapping[str, int]
    """Bytes of `launcher`, `queue`, `ray` and `libraries`; in shared memory of `weights of <policy>`, those
    that evals keep among them, and `rows of <table>`."""
    total_bytes: int
    shared_bytes: int
    """At most in shared memory, of the total: the above, and a version for each replica that reads it there
    and may be late to leave it."""
    prompt_tokens: Mapping[str, int]
    """By table the length of prompts that was reckoned with."""
    unknown_models: tuple[str, ...]
    """Models whose size is not known without loading them, so that they are not counted."""

    @property
    def on_one_machine(self) -> bool:
        """Whether the launch brings its own cluster, if any."""
        return "queue" not in self.processes or "ray" in self.processes

    @property
    def total_processes(self) -> int:
        return sum(self.processes.values())

    def of_service(self, name: str) -> int:
        """Bytes of a replica in the machine's memory."""
        return sum(self.replicas[name].values())


def in_words(size: int) -> str:
    """Bytes as a person reads them."""
    return f"{size / MIB:.0f} MiB" if size < GIB else f"{size / GIB:.1f} GiB"


def memory(spec: GraphSpec) -> Memory:
    """Of a graph without errors; on a cluster as if one machine had it all."""
    spec = settled(spec)
    running = services(spec)
    loads = {
        table: Load(batch=step_plan(spec, table), prompt_tokens=prompt_tokens(spec, table))
        for table in tables(spec)
    }
    sizes = {policy: size(options.model) for policy, options in spec.policies.items()}
    models = {name: _model(spec, name, sizes, loads) for name in running}
    cards = {name: on_gpu(node.options, models[name]) for name, node in running.items()}
    replicas = {name: _replica(spec, name, _on_host(models[name], cards[name])) for name in running}
    shared = _shared(spec, sizes, loads)
    beside = _beside(spec) | shared
    copies = {name: node.options.replicas for name, node in running.items()}
    shown = {name for name, node in running.items() if runs_model(node.kind, node.options)}
    used = {policy_of(spec, name) for name in shown}
    return Memory(
        processes=_processes(spec, copies),
        replicas=replicas,
        on_gpus={name: parts for name, parts in cards.items() if parts},
        beside=beside,
        total_bytes=sum(sum(parts.values()) * copies[name] for name, parts in replicas.items())
        + sum(beside.values()),
        shared_bytes=sum(shared.values())
        + sum(
            _version(spec, policy_of(spec, name), sizes) * copies[name]
            for name in running
            if _holds(spec, name)
        ),
        prompt_tokens={table: load.prompt_tokens for table, load in loads.items()},
        unknown_models=tuple(
            sorted({spec.policies[policy].model for policy in used if sizes[policy] is None})
        ),
    )


def _model(
    spec: GraphSpec, name: str, sizes: Mapping[str, ModelSize | None], loads: Mapping[str, Load]
) -> Parts:
    """Of a service's process and its model, wherever they lie."""
    policy, table = policy_of(spec, name), leased_table(spec, name)
    load = None if table is None else loads[table]
    return footprint(spec.nodes[name], spec.policies[policy], sizes[policy], load)


def _on_host(model: Parts, card: Parts) -> dict[str, int]:
    return {name: size for name, size in model.items() if name not in card or name == "weights"}


def _replica(spec: GraphSpec, name: str, parts: dict[str, int]) -> Parts:
    """With what is beside its own process."""
    if spec.runtime == "local":
        del parts["process"]
    if others := _ranks_beside(spec, name):
        own = MODEL_PROCESS + sum(parts.values()) - parts.get("process", 0) - parts.get("snapshot", 0)
        parts["ranks"] = others * (VLLM_PROCESS if runs_vllm(spec.nodes[name].options) else own)
    if _has_verifier_process(spec.nodes[name].options):
        is_gym = isinstance(spec.nodes[name].options.verifier, ReasoningGymVerifier)
        parts["verifier"] = VERIFIER + GYM * is_gym
    return parts


def _holds(spec: GraphSpec, name: str) -> bool:
    return holds_a_version(spec.nodes[name].options) and trainer_of(spec, policy_of(spec, name)) is not None


def _version(spec: GraphSpec, policy: str, sizes: Mapping[str, ModelSize | None]) -> int:
    found = sizes[policy]
    return 0 if found is None else version_size(spec.policies[policy], found)


def _has_verifier_process(options: Any) -> bool:
    return isinstance(getattr(options, "verifier", None), PythonVerifier | ReasoningGymVerifier)


def _processes(spec: GraphSpec, copies: Mapping[str, int]) -> dict[str, int]:
    is_local = spec.runtime == "local"
    services = {
        name: number
        * (_has_verifier_process(spec.nodes[name].options) + _ranks_beside(spec, name) + (not is_local))
        for name, number in copies.items()
    }
    beside = {"launcher": 1} if is_local else {"launcher": 1, "queue": 1}
    embedded = {} if is_local or spec.ray_address else {"ray": RAY_PROCESSES}
    return beside | embedded | services


def _ranks_beside(spec: GraphSpec, name: str) -> int:
    """Processes of a trainer beyond its own, and all those that vLLM has for GPUs."""
    options = spec.nodes[name].options
    if runs_vllm(options):
        return options.vllm.tensor_parallel if options.gpus else 0
    return ranks(options) - 1


def _beside(spec: GraphSpec) -> dict[str, int]:
    if spec.runtime == "local":
        return {"launcher": MODEL_PROCESS, "libraries": LIBRARIES}
    embedded = {} if spec.ray_address else {"ray": RAY}
    return {"launcher": LAUNCHER, "queue": QUEUE, **embedded, "libraries": LIBRARIES}


def _shared(
    spec: GraphSpec, sizes: Mapping[str, ModelSize | None], loads: Mapping[str, Load]
) -> dict[str, int]:
    """What is in shared memory: published weights, one version more while it is written, and those that evals
    keep; rows, unless they are on disk."""
    shared: dict[str, int] = {}
    for policy in spec.policies:
        trainer = trainer_of(spec, policy)
        if sizes[policy] is not None and trainer is not None:
            readers = [node for name, node in services(spec).items() if policy_of(spec, name) == policy]
            aside = sum(kept_aside(node.options, spec.steps_of(trainer)) for node in readers)
            shared[f"weights of {policy}"] = (KEPT_VERSIONS + 1 + aside) * _version(spec, policy, sizes)
    for table, load in loads.items():
        cells = 0 if spec.queue.durable else sum(_cell(c, load) for c in held_columns(spec, table))
        shared[f"rows of {table}"] = load.batch.max_rows * (ROW_BYTES + cells)
    return shared


def _cell(column: Column, load: Load) -> int:
    """Bytes of one cell, at most; of prompts as long as they are reckoned with."""
    if column.dtype in ("string", "json"):
        return TEXT_BYTES
    if not column.is_list():
        return NUMBERS[column.dtype]
    length = load.batch.max_new_tokens if column.aligned == "response" else load.prompt_tokens
    return length * NUMBERS[column.dtype.removeprefix("list<").removesuffix(">")]
