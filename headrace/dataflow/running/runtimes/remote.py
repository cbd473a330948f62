"""Actors of Ray: made in processes of their own, asked and ended, Ray's wrapping taken off their errors.

Invariant: Ray restarts nothing here (`max_restarts=0`), so that a death is always seen by who decides.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from headrace.dataflow.running.runtimes.actors import Place
from headrace.dataflow.running.runtimes.base import ReplicaDied
from headrace.services.errors import ReplicaFailed


def remote(actor: type, *, node: str | None = None, **options: Any) -> Any:
    """`actor` to be made in a process of its own; `node`: on that node of the cluster alone, by Ray's id."""
    if node is not None:
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    return ray.remote(**{"num_cpus": 0, "max_restarts": 0, "max_concurrency": 8, **options})(actor)


async def started(actor: Any, name: str, room: str, timeout_s: float) -> Place:
    """Where an actor's process is once it answers; ReplicaFailed where it does not in time."""
    try:
        async with asyncio.timeout(timeout_s):
            return await or_kill(actor, result(actor.place.remote(), name))
    except TimeoutError:
        raise ReplicaFailed(
            f"{name}: its process did not start within {timeout_s:g} s: the cluster may have {room}; free "
            "resources, or ask for less"
        ) from None


async def or_kill(actor: Any, work: Coroutine[Any, Any, Any]) -> Any:
    """The actor goes if what it was started for fails or is cancelled."""
    try:
        return await work
    except BaseException:
        kill(actor)
        raise


def kill(actor: Any) -> None:
    if ray.is_initialized():
        ray.kill(actor)


async def result(reference: Any, name: str) -> Any:
    """What a remote call gave. Raises ReplicaDied where the process is gone, ReplicaFailed for its errors."""
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
