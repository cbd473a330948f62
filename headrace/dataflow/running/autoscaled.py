"""Scales the services of a launch that ask for it, as `autoscaling` decides; each change is asked for as an
operator's is, by `autoscale`, with its reason.

Invariant: a look counts only replicas that have worked since the last one; without any, nothing is decided.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.record.board import Board, Standing
from headrace.dataflow.running.asks import Asker, Refusal
from headrace.dataflow.running.autoscaling import Autoscaling, Look
from headrace.services.base import Report
from headrace.services.errors import describe
from headrace.services.lifecycle import State
from headrace.services.options.placed import AutoscaleOptions
from headrace.transferqueue import Client, QueueError

LOOK_EVERY_S = 5.0
"""Replicas say what they did about as often."""
WHO = "autoscale"


class Scale(Protocol):
    async def __call__(self, node: str, replicas: int, asker: Asker) -> object: ...


class Looks:
    """At the replicas of one launch, each from where the last left it."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._seen: dict[str, tuple[float, float]] = {}

    def busy(self, node: str) -> tuple[int, float | None]:
        """Replicas of a service that are ready, and the mean share of the time since the last look that they
        worked; None: none has said."""
        ready = [each for each in self._board.standings() if _is_ready(each, node)]
        shares = [share for each in ready if (share := self._since(each)) is not None]
        return len(ready), sum(shares) / len(shares) if shares else None

    def _since(self, standing: Standing) -> float | None:
        if standing.shares is None:
            return None
        lived_s = standing.told - standing.started
        busy_s = standing.shares["busy"] * lived_s
        before_s, before_busy_s = self._seen.get(standing.replica, (0.0, 0.0))
        self._seen[standing.replica] = lived_s, busy_s
        if lived_s < before_s:
            before_s = before_busy_s = 0.0
        passed_s = lived_s - before_s
        return min(max((busy_s - before_busy_s) / passed_s, 0.0), 1.0) if passed_s > 0 else None


@asynccontextmanager
async def autoscaled(
    spec: GraphSpec, scale: Scale, *, board: Board, client: Client, report: Report
) -> AsyncIterator[None]:
    """While the block lasts."""
    options = {name: found for name, node in spec.nodes.items() if (found := asked_for(node.options))}
    scaling = asyncio.create_task(_scaling(options, scale, board, client, report), name="autoscale")
    try:
        yield
    finally:
        scaling.cancel()
        await asyncio.gather(scaling, return_exceptions=True)


def asked_for(options: object) -> AutoscaleOptions | None:
    """Of a node, by its options."""
    return getattr(options, "autoscale", None)


async def _scaling(
    options: Mapping[str, AutoscaleOptions], scale: Scale, board: Board, client: Client, report: Report
) -> None:
    deciding = {name: Autoscaling(each, at_s=time.monotonic()) for name, each in options.items()}
    looks = Looks(board)
    while deciding:
        await asyncio.sleep(LOOK_EVERY_S)
        try:
            tables = (await client.stats()).tables.values()
        except QueueError:
            continue
        ready = {task: rows.ready for table in tables for task, rows in table.tasks.items()}
        for name, each in deciding.items():
            replicas, busy = looks.busy(name)
            if busy is None:
                continue
            look = Look(at_s=time.monotonic(), replicas=replicas, busy=busy, ready=ready.get(name, 0))
            if (decision := each.decide(look)) is None:
                continue
            try:
                await scale(name, decision.replicas, Asker(who=WHO, why=decision.why))
            except Refusal as refusal:
                report.event("not_scaled", node=name, replicas=decision.replicas, reason=str(refusal))
            except Exception as error:
                report.event("not_scaled", node=name, replicas=decision.replicas, reason=describe(error))
            each.changed(time.monotonic())


def _is_ready(standing: Standing, node: str) -> bool:
    return standing.state is State.READY and standing.replica.rpartition("/")[0] == node
