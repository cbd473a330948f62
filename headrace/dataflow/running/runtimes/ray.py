"""`runtime: ray`: each replica a Ray actor, on an embedded cluster or on an existing one by address.

Invariant: the supervisor decides what is started again, so that a death is always seen, its leases come back
at once, and a replacement serves only what it has confirmed. A process ends with its replica. On an existing
cluster every replica stands on the post of the node that it is on, see `posts.py`.
"""

import asyncio
import logging
import os
import signal
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cloudpickle import register_pickle_by_value

from headrace.algorithms.by_path import is_of_a_file
from headrace.dataflow.planning.ray_cluster import require_listening
from headrace.dataflow.running.interrupts import kept_signals
from headrace.dataflow.running.runtimes.actors import Place, QueueActor, ReplicaActor
from headrace.dataflow.running.runtimes.base import QueuePlace, ReplicaDied, RuntimeUnavailable
from headrace.dataflow.running.runtimes.groups import Groups, room_for
from headrace.dataflow.running.runtimes.post import keys_in
from headrace.dataflow.running.runtimes.posts import Ground, Posts
from headrace.dataflow.running.runtimes.remote import kill, or_kill, remote, result, started
from headrace.dataflow.running.shared_memory import SCRATCH, SCRATCH_PARENT, owned_folder
from headrace.services.base import Report
from headrace.services.errors import ReplicaFailed, describe
from headrace.services.faults import Fault
from headrace.services.host import Assignment
from headrace.services.pulse import Beat

OBJECT_STORE_BYTES = 80 << 20
"""Ray's own store, which carries nothing of ours: payloads and weights have their own files."""
WORKER_TITLE = "ray::"
"""What the title of a worker's process begins with."""
QUEUE_START_TIMEOUT_S = 120.0
KILL_TIMEOUT_S = 10.0
"""Until a process that was killed, or whose cluster ended, is gone."""


class RayHandle:
    has_process = True

    def __init__(self, actor: Any, name: str, place: Place, run: Any, *, is_here: bool) -> None:
        """`run`: what the actor was asked for that lasts as long as it does. `is_here`: whether its process
        is on this machine."""
        self.pid = place.pid
        self.node = place.node
        self._is_here = is_here
        self._actor = actor
        self._name = name
        self._running = asyncio.ensure_future(result(run, name))
        self._running.add_done_callback(lambda _: kill(actor))

    async def wait(self) -> None:
        await asyncio.shield(self._running)

    async def drain(self) -> None:
        await result(self._actor.drain.remote(), self._name)

    async def look(self) -> Beat:
        return await result(self._actor.look.remote(), self._name)

    async def inject(self, fault: Fault | None) -> None:
        await result(self._actor.inject.remote(fault), self._name)

    async def rewrite_weights(self) -> None:
        await result(self._actor.rewrite_weights.remote(), self._name)

    async def kill(self) -> None:
        """Ray asks a process to end, which one that hangs does not hear."""
        if self._is_here:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        kill(self._actor)
        await asyncio.wait({self._running}, timeout=KILL_TIMEOUT_S)

    async def stop(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await result(self._actor.stop.remote(), self._name)
                await asyncio.wait({self._running})
        except (TimeoutError, ReplicaDied, ReplicaFailed):
            pass
        finally:
            kill(self._actor)
            await asyncio.wait({self._running}, timeout=KILL_TIMEOUT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Existing:
    """A cluster that others started."""

    address: str
    shared: Path
    """The launcher's folder in its node's shared memory."""
    report: Report


class RayRuntime:
    zmq_context = None

    def __init__(self, *, existing: Existing | None, cpus: int, gpus: int = 0) -> None:
        """`cpus`, `gpus`: of an embedded cluster."""
        self._existing = existing
        self._cpus = cpus
        self._gpus = gpus
        self._resources = ExitStack()
        self._groups = Groups()
        self._posts: Posts | None = None

    @property
    def keys(self) -> Path | None:
        return None if self._existing is None else keys_in(self._existing.shared)

    async def open(self) -> None:
        """Ray raises plain exceptions too, as where its node does not come up in time."""
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        address = self._existing and self._existing.address
        try:
            if address:
                await asyncio.to_thread(require_listening, address)
            where: dict[str, Any] = {"address": address} if address else self._embedded()
            with kept_signals():
                ray.init(log_to_driver=False, logging_level=logging.ERROR, **where)
        except Exception as error:
            what = f"the cluster at {address}" if address else "an embedded cluster"
            raise RuntimeUnavailable(
                f"ray: {what} cannot be had: {describe(error)}; mend that, or run with runtime=local"
            ) from error

    def _embedded(self) -> dict[str, Any]:
        scratch = self._resources.enter_context(owned_folder(SCRATCH_PARENT, SCRATCH))
        return {
            "address": "local",
            "include_dashboard": False,
            "num_cpus": self._cpus,
            "num_gpus": self._gpus,
            "object_store_memory": OBJECT_STORE_BYTES,
            "_temp_dir": str(scratch),
            "_node_ip_address": "127.0.0.1",
        }

    async def start_queue(self, place: QueuePlace) -> tuple[str, RayHandle]:
        home = ray.get_runtime_context().get_node_id()
        actor = remote(QueueActor, node=home).remote(place, self.keys)
        where = await started(actor, "queue", "no room", QUEUE_START_TIMEOUT_S)
        address = await or_kill(actor, result(actor.open.remote(), "queue"))
        handle = RayHandle(actor, "queue", where, actor.run.remote(), is_here=True)
        if self._existing is not None and self._posts is None:
            self._posts = Posts(
                Ground(
                    home=home,
                    shared=self._existing.shared,
                    queue=place,
                    queue_address=address,
                    report=self._existing.report,
                )
            )
            await self._posts.open()
        return address, handle

    async def start(self, assignment: Assignment) -> RayHandle:
        _send_class_along(type(assignment.options))
        name, timeout_s = assignment.replica, assignment.flow.no_progress_timeout_s
        placed = await self._groups.place(assignment, timeout_s)
        environment = {"env_vars": process_environment(assignment)}
        working_dir = None if self._existing is not None else Path.cwd()
        actor = remote(ReplicaActor, **placed, runtime_env=environment).remote(
            assignment.log_file, working_dir
        )
        where = await started(actor, name, f"no room for {room_for(assignment.options)}", timeout_s)
        if self._posts is not None:
            assignment = await or_kill(actor, self._posts.told(assignment, where.node))
        is_here = where.node == ray.get_runtime_context().get_node_id()
        return RayHandle(actor, name, where, actor.run.remote(assignment), is_here=is_here)

    async def close(self) -> None:
        """Ends the embedded cluster with every process of it, or leaves the existing one as it was."""
        workers = [] if self._existing is not None else _workers()
        try:
            if self._posts is not None:
                await self._posts.close()
            self._groups.close()
            ray.shutdown()
            await asyncio.to_thread(_end, workers)
        finally:
            self._resources.close()


def _send_class_along(options: type) -> None:
    """A class of a user's file travels whole with what is made of it."""
    if is_of_a_file(options.__module__):
        register_pickle_by_value(sys.modules[options.__module__])


def process_environment(assignment: Assignment) -> dict[str, str]:
    """Variables that must stand before the process loads its libraries.

    OpenMP threads wait by spinning for some tens of microseconds only: several services share the cores.
    """
    return {"OMP_NUM_THREADS": str(assignment.threads), "GOMP_SPINCOUNT": "20000"}


def _workers() -> list[psutil.Process]:
    """Ray's workers among the processes that come from this one."""
    return [process for process in psutil.Process().children(recursive=True) if _is_worker(process)]


def _is_worker(process: psutil.Process) -> bool:
    try:
        return any(part.startswith(WORKER_TITLE) for part in process.cmdline()[:1])
    except psutil.Error:
        return False


def _end(workers: list[psutil.Process]) -> None:
    """Waits for processes that end with their cluster, and kills those that do not."""
    _, left = psutil.wait_procs(workers, timeout=KILL_TIMEOUT_S)
    for process in left:
        process.kill()
    psutil.wait_procs(left, timeout=KILL_TIMEOUT_S)
