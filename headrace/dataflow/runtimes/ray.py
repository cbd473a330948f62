"""`runtime: ray`: each replica a Ray actor, on an embedded cluster or on an existing one by address.

Invariant: Ray restarts nothing here (`max_restarts=0`); the supervisor decides, so that a death is always seen,
its leases come back at once, and a replacement serves only what it has confirmed.
"""

import asyncio
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from headrace.dataflow.runtimes.base import ReplicaDied
from headrace.services.errors import ReplicaFailed
from headrace.services.host import Assignment, Hosted
from headrace.transferqueue import Controller

OBJECT_STORE_BYTES = 80 << 20
"""Ray's own store, which carries nothing of ours: payloads and weights have their own files."""


class ReplicaActor:
    """A process with one replica in it."""

    def __init__(self, assignment: Assignment) -> None:
        _log_to(assignment.log_file)
        self._hosted = Hosted(assignment)

    async def run(self) -> None:
        await self._hosted.run()

    async def stop(self) -> None:
        await self._hosted.stop()

    def process_id(self) -> int:
        return os.getpid()


class QueueActor:
    """The process of the queue's controller."""

    def __init__(self, directory: Path, log_file: Path) -> None:
        _log_to(log_file)
        self._controller = Controller(directory)

    async def open(self) -> str:
        await self._controller.start()
        return self._controller.address

    async def run(self) -> None:
        await self._controller.closed()

    async def stop(self) -> None:
        await self._controller.close()

    def process_id(self) -> int:
        return os.getpid()


class RayHandle:
    def __init__(self, actor: Any, name: str, pid: int) -> None:
        self.pid = pid
        self._actor = actor
        self._name = name
        self._running = asyncio.ensure_future(_result(actor.run.remote(), name))

    async def wait(self) -> None:
        await asyncio.shield(self._running)

    async def stop(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await _result(self._actor.stop.remote(), self._name)
                await asyncio.wait({self._running})
        except (TimeoutError, ReplicaDied):
            pass
        finally:
            ray.kill(self._actor)
            await asyncio.wait({self._running})


class RayRuntime:
    zmq_context = None

    def __init__(self, run_dir: Path, *, address: str | None, cpus: int) -> None:
        self._run_dir = run_dir
        self._address = address
        self._cpus = cpus
        self._scratch: Path | None = None

    async def open(self) -> None:
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        common: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if self._address is not None:
            ray.init(address=self._address, **common)
            return
        self._scratch = Path(tempfile.mkdtemp(prefix="headrace-ray-", dir="/tmp"))
        ray.init(
            address="local",
            include_dashboard=False,
            num_cpus=self._cpus,
            object_store_memory=OBJECT_STORE_BYTES,
            _temp_dir=str(self._scratch),
            _node_ip_address="127.0.0.1",
            **common,
        )

    async def start_queue(self, directory: Path) -> tuple[str, RayHandle]:
        remote = ray.remote(num_cpus=0, max_restarts=0, max_concurrency=8)(QueueActor)
        actor = remote.remote(directory, self._run_dir / "logs" / "queue.log")
        address = await _result(actor.open.remote(), "queue")
        return address, RayHandle(actor, "queue", await _result(actor.process_id.remote(), "queue"))

    async def start(self, assignment: Assignment) -> RayHandle:
        placed = assignment.options
        remote = ray.remote(
            num_cpus=placed.cpus,
            num_gpus=placed.gpus,
            max_restarts=0,
            max_concurrency=8,
            runtime_env={"env_vars": process_environment(assignment)},
        )(ReplicaActor)
        actor = remote.remote(assignment)
        pid = await _result(actor.process_id.remote(), assignment.replica)
        return RayHandle(actor, assignment.replica, pid)

    async def close(self) -> None:
        ray.shutdown()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


def process_environment(assignment: Assignment) -> dict[str, str]:
    """Variables that must stand before the process loads its libraries.

    OpenMP threads that wait must not spin: several services share the cores.
    """
    return {"OMP_NUM_THREADS": str(assignment.threads), "OMP_WAIT_POLICY": "PASSIVE"}


async def _result(reference: Any, name: str) -> Any:
    """What a remote call gave, with Ray's wrapping taken off its errors."""
    try:
        return await reference
    except RayActorError as error:
        raise ReplicaDied(f"the process of {name} is gone: {_first_line(error)}") from error
    except RayTaskError as error:
        cause = error.cause if isinstance(error.cause, Exception) else error
        if isinstance(cause, ReplicaFailed):
            raise ReplicaFailed(str(cause)) from None
        raise ReplicaFailed(f"{name}: {type(cause).__name__}: {_first_line(cause)}") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _log_to(path: Path) -> None:
    """Sends everything that this process prints to its own file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, sys.stdout.fileno())
    os.dup2(file, sys.stderr.fileno())
    os.close(file)
