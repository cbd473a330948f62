"""`runtime: ray`: each replica a Ray actor, on an embedded cluster or on an existing one by address.

Invariant: Ray restarts nothing here (`max_restarts=0`); the supervisor decides, so that a death is always
seen, its leases come back at once, and a replacement serves only what it has confirmed. A process ends with
its replica.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cloudpickle import register_pickle_by_value
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeLabelSchedulingStrategy, NotIn

from headrace.algorithms.by_path import is_of_a_file
from headrace.dataflow.running.interrupts import kept_signals
from headrace.dataflow.running.runtimes.actors import Place, QueueActor, ReplicaActor
from headrace.dataflow.running.runtimes.base import QueuePlace, ReplicaDied, RuntimeUnavailable
from headrace.dataflow.running.shared_memory import owned_folder
from headrace.services.errors import ReplicaFailed, describe
from headrace.services.faults import Fault
from headrace.services.host import Assignment
from headrace.services.pulse import Beat

OBJECT_STORE_BYTES = 80 << 20
"""Ray's own store, which carries nothing of ours: payloads and weights have their own files."""
SCRATCH = "headrace-ray-"
SCRATCH_PARENT = Path("/tmp")
"""Short, since the paths of Ray's sockets must fit into 107 bytes."""
WORKER_TITLE = "ray::"
"""What the title of a worker's process begins with."""
NODE_ID_LABEL = "ray.io/node-id"
"""That Ray gives every node."""
CONNECT_TIMEOUT_S = 10.0
QUEUE_START_TIMEOUT_S = 120.0
KILL_TIMEOUT_S = 10.0
"""Until a process that was killed, or whose cluster ended, is gone."""


class RayHandle:
    has_process = True

    def __init__(self, actor: Any, name: str, place: Place, *, is_here: bool) -> None:
        """`is_here`: whether its process is on this machine for sure."""
        self.pid = place.pid
        self.node = place.node
        self._is_here = is_here
        self._actor = actor
        self._name = name
        self._running = asyncio.ensure_future(_result(actor.run.remote(), name))
        self._running.add_done_callback(lambda _: _kill(actor))

    async def wait(self) -> None:
        await asyncio.shield(self._running)

    async def drain(self) -> None:
        await _result(self._actor.drain.remote(), self._name)

    async def look(self) -> Beat:
        return await _result(self._actor.look.remote(), self._name)

    async def inject(self, fault: Fault | None) -> None:
        await _result(self._actor.inject.remote(fault), self._name)

    async def rewrite_weights(self) -> None:
        await _result(self._actor.rewrite_weights.remote(), self._name)

    async def kill(self) -> None:
        """Ray asks a process to end, which one that hangs does not hear."""
        if self._is_here:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        _kill(self._actor)
        await asyncio.wait({self._running}, timeout=KILL_TIMEOUT_S)

    async def stop(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await _result(self._actor.stop.remote(), self._name)
                await asyncio.wait({self._running})
        except (TimeoutError, ReplicaDied, ReplicaFailed):
            pass
        finally:
            _kill(self._actor)
            await asyncio.wait({self._running}, timeout=KILL_TIMEOUT_S)


class RayRuntime:
    zmq_context = None

    def __init__(self, *, address: str | None, cpus: int, gpus: int = 0) -> None:
        self._address = address
        self._cpus = cpus
        self._gpus = gpus
        self._resources = ExitStack()

    async def open(self) -> None:
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            where = await self._existing(self._address) if self._address else self._embedded()
            with kept_signals():
                ray.init(log_to_driver=False, logging_level=logging.ERROR, **where)
        except (RayError, OSError, RuntimeError, ValueError) as error:
            what = f"the cluster at {self._address}" if self._address else "an embedded cluster"
            raise RuntimeUnavailable(
                f"ray: {what} cannot be had: {describe(error)}; mend that, or run with runtime=local"
            ) from error

    async def _existing(self, address: str) -> dict[str, Any]:
        """Raises OSError where nobody listens at HOST:PORT, for which Ray itself would take minutes."""
        host, _, port = address.rpartition(":")
        if host and port.isdigit() and "/" not in host:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
        return {"address": address}

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
        actor = _remote(QueueActor).remote(place)
        where = await _started(actor, "queue", "no room", QUEUE_START_TIMEOUT_S)
        address = await _or_kill(actor, _result(actor.open.remote(), "queue"))
        return address, RayHandle(actor, "queue", where, is_here=self._address is None)

    async def start(self, assignment: Assignment) -> RayHandle:
        placed = assignment.options
        _send_class_along(type(placed))
        environment = process_environment(assignment)
        remote = _remote(ReplicaActor, placed.cpus, placed.gpus, environment, avoid=assignment.avoid)
        working_dir = None if self._address is not None else Path.cwd()
        actor = remote.remote(assignment, working_dir)
        room = f"no room for its {placed.cpus:g} cpus and {placed.gpus:g} gpus"
        timeout_s = assignment.flow.no_progress_timeout_s
        where = await _started(actor, assignment.replica, room, timeout_s)
        return RayHandle(actor, assignment.replica, where, is_here=self._address is None)

    async def close(self) -> None:
        """Ends the embedded cluster with every process of it, or leaves the existing one."""
        workers = [] if self._address else _workers()
        try:
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


def _remote(
    actor: type,
    cpus: float = 0,
    gpus: float = 0,
    environment: dict[str, str] | None = None,
    *,
    avoid: str = "",
) -> Any:
    """`actor` to be made in a process of its own, which Ray never restarts; not on the node `avoid`, where
    another has room."""
    options: dict[str, Any] = {
        "num_cpus": cpus,
        "num_gpus": gpus,
        "max_restarts": 0,
        "max_concurrency": 8,
        "runtime_env": {"env_vars": environment or {}},
    }
    if avoid:
        elsewhere = NodeLabelSchedulingStrategy(hard={}, soft={NODE_ID_LABEL: NotIn(avoid)})
        options["scheduling_strategy"] = elsewhere
    return ray.remote(**options)(actor)


async def _started(actor: Any, name: str, room: str, timeout_s: float) -> Place:
    """Of an actor's process, once it answers; ReplicaFailed where it does not in time."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _or_kill(actor, _result(actor.place.remote(), name))
    except TimeoutError:
        raise ReplicaFailed(
            f"{name}: its process did not start within {timeout_s:g} s: the cluster may have {room}; free "
            "resources, or ask for less"
        ) from None


async def _or_kill(actor: Any, work: Coroutine[Any, Any, Any]) -> Any:
    """The actor goes if what it was started for fails or is cancelled."""
    try:
        return await work
    except BaseException:
        _kill(actor)
        raise


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


def _kill(actor: Any) -> None:
    if ray.is_initialized():
        ray.kill(actor)


async def _result(reference: Any, name: str) -> Any:
    """What a remote call gave, with Ray's wrapping taken off its errors."""
    try:
        return await reference
    except RayActorError as error:
        raise ReplicaDied(f"the process of {name} is gone: {_cause(error)}") from error
    except RayTaskError as error:
        cause = error.cause if isinstance(error.cause, Exception) else error
        if isinstance(cause, ReplicaFailed):
            raise type(cause)(str(cause)) from None
        raise ReplicaFailed(f"{name}: {type(cause).__name__}: {_first_line(cause)}") from error
    except RayError as error:
        raise ReplicaFailed(f"{name}: {type(error).__name__}: {_first_line(error)}") from error


def _cause(error: RayActorError) -> str:
    """Ray's last line says what ended the process, and then what it might have been."""
    return str(error).strip().rpartition("\n")[2].partition(" Some common causes")[0]


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
