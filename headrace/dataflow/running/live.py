"""What can be asked of a launch while it goes on: to look, to change its services, to move the knob, to
stand, to end.

Every change is an event `asked` with who asked and why, before anything is done. Refusal is raised, and
nothing done, where an ask cannot be met.
"""

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from typing import Any, Final

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.record.board import Board
from headrace.dataflow.record.prometheus.exposition import exposition, of_service
from headrace.dataflow.record.seen import Seen
from headrace.dataflow.running.asks import Asker, Refusal
from headrace.dataflow.running.autoscaled import autoscaled
from headrace.dataflow.running.changes import Changes
from headrace.dataflow.running.current import Current
from headrace.dataflow.running.drills import Drills, Ordered
from headrace.dataflow.running.service_changes import ServiceChanges
from headrace.dataflow.running.supervisor import Supervisor
from headrace.dataflow.running.waiting import AT_NOTHING, at
from headrace.transferqueue import Client, TableStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """That a run stands."""

    who: str
    why: str
    since: float
    """Unix seconds."""


class Live:
    """One launch in progress; `services` changes its services."""

    def __init__(
        self,
        current: Current,
        services: ServiceChanges,
        *,
        changes: Changes,
        board: Board,
        seen: Seen,
        supervisor: Supervisor,
        client: Client,
        drills: Drills,
        stop: Callable[[], None],
    ) -> None:
        """`stop` ends the run as an interrupt does."""
        self.services = services
        self._current = current
        self._changes = changes
        self._board = board
        self.seen = seen
        self._supervisor = supervisor
        self._client = client
        self._drills = drills
        self._stop = stop
        self._paused: Paused | None = None
        self._setting = asyncio.Lock()

    @property
    def spec(self) -> GraphSpec:
        """The graph as it is now."""
        return self._current.spec

    async def overview(self) -> dict[str, Any]:
        """Steps by policy, the queue's figures by table, how every replica stands, and what is under way."""
        stats, done = await self._client.stats(), self._board.steps()
        found = await at(self._supervisor, self._client)
        spec = self._current.spec
        return {
            "name": spec.name,
            "paused": None if self._paused is None else asdict(self._paused),
            "short": [asdict(each) for each in stats.short],
            "steps": {
                policy: {"done": done.get(policy, 0), "of": spec.steps_of(trainer)}
                for trainer, policy in self._current.trainers().items()
            },
            "tables": {name: _table(table) for name, table in stats.tables.items() if name in spec.nodes},
            "replicas": [
                {**standing.to_json(), **found.get(standing.replica, AT_NOTHING)}
                for standing in self._board.standings()
            ],
            "changes": self.changes(),
        }

    def changes(self) -> list[dict[str, Any]]:
        """Those of services that are under way."""
        return [
            {
                "node": each.node,
                "action": each.action,
                "who": each.asker.who,
                "why": each.asker.why,
                "since": each.since,
                "detail": each.detail,
            }
            for each in self._changes.under_way()
        ]

    async def metrics(self) -> str:
        """The launch as Prometheus reads it."""
        trainers = self._current.trainers()
        asked = {policy: self._current.spec.steps_of(trainer) for trainer, policy in trainers.items()}
        return exposition(self._board, self._board.newest, await self._client.stats(), asked)

    def metrics_of(self, node: str) -> str:
        """One service, likewise."""
        return of_service(self._board, self._board.newest, node)

    def autoscaled(self) -> AbstractAsyncContextManager[None]:
        """While the block lasts, services that ask for it are scaled by how busy they are."""
        return autoscaled(
            self.spec,
            self.services.scale,
            board=self._board,
            client=self._client,
            report=self._changes.report,
        )

    def replicas(self) -> list[str]:
        """All that this launch started."""
        return [standing.replica for standing in self._board.standings()]

    def cancel(self, node: str, asker: Asker) -> str:
        """Has a service's change that is under way end, which it has not yet; returns what it is."""
        return self._changes.cancel(node, asker).action

    async def set_staleness(
        self, staleness: float, asker: Asker, *, policy: str | None = None
    ) -> dict[str, float | str]:
        """Moves the knob of one policy, or of the run; returns the bound of each table that it moved.

        Units that were begun keep the bound under which they were begun.
        """
        async with self._setting:
            spec = self._current.with_staleness(staleness, policy)
            self._current.require(spec)
            tables = self._current.plan(spec).tables
            now = (await self._client.stats()).tables
            moved = {name: table for name, table in tables.items() if table.staleness != now[name].staleness}
            self._changes.said(
                "set staleness", asker, node="", staleness=written(staleness), policy=policy or ""
            )
            for table in moved.values():
                await self._client.create(table)
            self._current.spec = self._current.with_staleness(staleness, policy)
        return {name: written(table.staleness) for name, table in moved.items()}

    async def pause(self, asker: Asker) -> Paused:
        """No row is handed out from now on: each service finishes what it holds, and stands; no wait ends."""
        async with self._setting:
            if self._paused is not None:
                raise Refusal(f"the run is paused already, by {self._paused.who}; `headrace resume` goes on")
            self._changes.said("pause", asker)
            because = f": {asker.why}" if asker.why else ""
            tables = list(self._current.plan(self._current.spec).tables)
            await self._client.pause(tables, f"by {asker.who}{because}")
            self._paused = Paused(who=asker.who, why=asker.why, since=time.time())
        return self._paused

    async def resume(self, asker: Asker) -> None:
        """What was paused goes on."""
        async with self._setting:
            if self._paused is None:
                raise Refusal("the run is not paused; it goes on already")
            self._changes.said("resume", asker)
            await self._client.pause([])
            self._paused = None

    async def inject(self, order: Ordered, asker: Asker) -> None:
        """Has something go wrong, as a drill."""
        await self._drills.inject(order, asker)

    def stop(self, asker: Asker) -> None:
        """The run ends as at an interrupt: what is held is handed back, a checkpoint is made."""
        self._changes.said("stop", asker)
        self._stop()


OF_TABLE: Final = (
    *("step", "rows", "bytes", "oldest_age_s", "quarantined", "trained", "outstanding_units"),
    *("staleness_trained", "staleness_in_flight", "staleness_in_queue"),
)
"""Figures that are told as the queue says them."""


def _table(table: TableStats) -> dict[str, Any]:
    return {
        **{name: getattr(table, name) for name in OF_TABLE},
        "staleness": written(table.staleness),
        "tasks": {task: asdict(figures) for task, figures in table.tasks.items()},
    }


def written(staleness: float) -> float | str:
    """As JSON and YAML have it: without a bound it is "inf"."""
    return staleness if math.isfinite(staleness) else "inf"
