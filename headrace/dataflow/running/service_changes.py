"""What can be done to the services of a live launch: scaled, drained, restarted, upgraded.

    scale     adds replicas, or drains the youngest; where one does not come up, or when cancelled, those
              added go again
    widen     a trainer ends with a checkpoint and goes on from it in other ranks, or in those that it had
              where these do not come up
    drain     one replica ends, and its service has one fewer
    restart   one after another is drained and started anew; when cancelled, those left stay as they are
    upgrade   one after another is replaced by one with new options, which has to be ready before the old one
              is drained; where one does not come up, or when cancelled, all are as they were

Invariant: a replica that drains finishes what it holds, or hands it back; a service never loses its last.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.record.board import Board
from headrace.dataflow.running.asks import Asker, Refusal
from headrace.dataflow.running.changes import Change, Changes
from headrace.dataflow.running.current import Current
from headrace.dataflow.running.supervisor import Renewal, Supervisor
from headrace.dataflow.running.upgrade import upgraded
from headrace.services.host import Assignment
from headrace.services.kinds import kind_of
from headrace.services.lifecycle import State
from headrace.services.options import TrainerOptions

DRAIN_S = 60.0
"""After which a draining replica hands back what it has not finished."""
MOST_REPLICAS = 256


class Keep(Protocol):
    def __call__(self, assignment: Assignment, *, trial: bool = False) -> None:
        """Starts one more replica and watches it; see `Supervisor.keep`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """What scaling a service came to, or would."""

    node: str
    before: int
    after: int
    added: Sequence[str]
    drained: Sequence[str]
    renewed: Sequence[str] = ()
    """Of a trainer, whose data-parallel ranks are counted."""
    done: bool
    """False of a dry run."""


class ServiceChanges:
    """Of one launch. Each ask raises Refusal where it cannot be met."""

    def __init__(
        self,
        current: Current,
        told: Sequence[Assignment],
        *,
        changes: Changes,
        board: Board,
        supervisor: Supervisor,
        keep: Keep,
    ) -> None:
        """`told`: to the replicas that it began with."""
        self._current = current
        self._told = {assignment.node: assignment for assignment in reversed(told)}
        self._changes = changes
        self._board = board
        self._supervisor = supervisor
        self._keep = keep

    async def scale(self, node: str, replicas: int, asker: Asker, *, dry_run: bool = False) -> Scaled:
        """Returns once those added are ready, or those drained are gone; of a trainer see `_widen`."""
        if not 1 <= replicas <= MOST_REPLICAS:
            raise Refusal(f"{node}: got {replicas} replicas; 1 to {MOST_REPLICAS} are allowed")
        if node in self._told and self._told[node].kind == "trainer":
            return await self._widen(node, replicas, asker, dry_run=dry_run)
        template = self._changeable(node)
        running = self._supervisor.replicas(node)
        free = self._free(node)
        added = [replace(template, index=next(free)) for _ in range(replicas - len(running))]
        drained = running[replicas:]
        spec = self._current.with_options(node, replicas=replicas)
        self._current.require(spec)
        scaled = Scaled(
            node=node,
            before=len(running),
            after=replicas,
            added=[assignment.replica for assignment in added],
            drained=drained,
            done=not dry_run,
        )
        if dry_run:
            return scaled
        counts = {"before": len(running), "after": replicas}
        with self._changes.making(node, "scale", asker, is_final=not added, **counts) as change:
            await self._add(added, change)
            await asyncio.gather(*(self._drain(name, f"scaled to {replicas}") for name in drained))
            self._current.spec = spec
        return scaled

    async def _widen(self, node: str, ranks: int, asker: Asker, *, dry_run: bool) -> Scaled:
        """Another data-parallel width of a trainer; returns once it is ready at it."""
        running = self._running(node)
        now: TrainerOptions = self._current.spec.nodes[node].options
        spec = self._current.with_options(node, parallel=replace(now.parallel, dp=ranks))
        self._current.require(spec)
        renewed = running if ranks != now.parallel.dp else []
        scaled = Scaled(
            node=node,
            before=now.parallel.dp,
            after=ranks,
            added=[],
            drained=[],
            renewed=renewed,
            done=not dry_run,
        )
        if dry_run or not renewed:
            return scaled
        (name,), old, new = running, self._told[node], self._current.told(spec)[node]
        reason = f"scaled from {now.parallel.dp} to {ranks} ranks"
        renewal = Renewal(change=_as(new), back=_as(old), reason=reason)
        limit_s = old.flow.no_progress_timeout_s
        counts = {"before": now.parallel.dp, "after": ranks}
        with self._changes.making(node, "scale", asker, is_final=True, **counts):
            try:
                await self._supervisor.renew(name, renewal, timeout_s=limit_s)
            except TimeoutError:
                raise Refusal(
                    f"{name} has not ended after {limit_s:g} s; it is changed once it has"
                ) from None
            await self._ready(old)
            if not self._supervisor.settled(name):
                raise Refusal(
                    f"{name} did not come up in {ranks} ranks, and goes on in those it had: "
                    f"{self._error(name)}"
                )
            self._told[node] = new
            self._current.spec = spec
        return scaled

    async def drain(self, replica: str, asker: Asker) -> Scaled:
        """One replica, whichever it is; returns once it is gone."""
        node = replica.rpartition("/")[0]
        self._changeable(node)
        running = self._supervisor.replicas(node)
        if replica not in running:
            raise Refusal(f"no replica {replica!r} runs; there are {', '.join(running)}")
        left = len(running) - 1
        if not left:
            raise Refusal(
                f"{replica} is the last of {node}, which the run needs; add one first by `headrace scale "
                f"{node}=2`, or pause the run"
            )
        spec = self._current.with_options(node, replicas=left)
        with self._changes.making(node, "drain", asker, is_final=True, replica=replica):
            await self._drain(replica, "drained by an operator")
            self._current.spec = spec
        return Scaled(node=node, before=left + 1, after=left, added=[], drained=[replica], done=True)

    async def restart(self, node: str, asker: Asker) -> list[str]:
        """Returns once the last is ready again."""
        template = self._changeable(node)
        restarted = self._supervisor.replicas(node)
        with self._changes.making(node, "restart", asker, replicas=restarted) as change:
            for name in restarted:
                change.require_wanted()
                if name not in self._supervisor.replicas(node):
                    raise Refusal(
                        f"{name} has ended by itself; those before it were restarted, the rest were not"
                    )
                await self._drain(name, "restarted")
                again = replace(template, index=int(name.rpartition("/")[2]))
                self._keep(again)
                await self._ready(again)
        return restarted

    async def upgrade(self, node: str, given: GraphSpec, asker: Asker, *, dry_run: bool = False) -> list[str]:
        """Gives a service the options that a graph has for it; returns its replicas from then on."""
        self._changeable(node)
        spec = upgraded(self._current, given, node)
        old = self._supervisor.replicas(node)
        if spec == self._current.spec or dry_run:
            return old
        template = replace(self._current.told(spec)[node], threads=self._told[node].threads)
        new: list[Assignment] = []
        with self._changes.making(node, "upgrade", asker, replicas=old) as change:
            try:
                for name in old:
                    new.append(await self._in_place_of(name, template, "upgraded", change))
            except Refusal as refusal:
                await self._take_back(node, new, refusal)
                raise
            self._told[node] = template
            self._current.spec = spec
        return [each.replica for each in new]

    async def _take_back(self, node: str, new: Sequence[Assignment], refusal: Refusal) -> None:
        for each in new:
            try:
                await self._in_place_of(each.replica, self._told[node], "the upgrade was taken back")
            except Refusal as again:
                raise Refusal(
                    f"{refusal}; {each.replica} and those after it keep the new options, since one with the "
                    f"earlier ones did not come up either: {again}"
                ) from refusal

    async def _in_place_of(
        self, old: str, template: Assignment, reason: str, change: Change | None = None
    ) -> Assignment:
        new = replace(template, index=next(self._free(template.node)))
        self._keep(new, trial=True)
        try:
            await self._ready(new, change)
        except Refusal:
            await self._drain(new.replica, "did not come up")
            raise
        self._supervisor.proven(new.replica)
        await self._drain(old, reason)
        return new

    async def _add(self, added: Sequence[Assignment], change: Change) -> None:
        for assignment in added:
            self._keep(assignment)
        ends = await asyncio.gather(*(self._ready(each, change) for each in added), return_exceptions=True)
        if failures := [end for end in ends if isinstance(end, BaseException)]:
            await asyncio.gather(*(self._drain(each.replica, "could not be added") for each in added))
            raise failures[0]

    def _free(self, node: str) -> "filter[int]":
        """Numbers that no replica of the service has."""
        taken = {int(name.rpartition("/")[2]) for name in self._supervisor.replicas(node)}
        return filter(lambda index: index not in taken, count())

    def _changeable(self, node: str) -> Assignment:
        if node not in self._told:
            raise Refusal(f"no service {node!r} runs; there are {', '.join(sorted(self._told))}")
        template = self._told[node]
        if why := kind_of(template.kind).is_single:
            raise Refusal(
                f"{node} is a {template.kind}, of which there is one, since {why}; stop the run, and go on "
                "with it by `headrace run DIR`"
            )
        self._running(node)
        return template

    def _running(self, node: str) -> list[str]:
        """The replicas of a service that nobody is changing. Raises Refusal where there is none."""
        self._changes.require_free(node)
        if running := self._supervisor.replicas(node):
            return running
        raise Refusal(f"{node} has no replica left that runs: no unfinished policy needs it")

    def _error(self, replica: str) -> str:
        """The last that it failed with."""
        standing = self._board.standing(replica)
        return "" if standing is None else standing.error

    async def _drain(self, replica: str, reason: str) -> None:
        standing = self._board.standing(replica)
        ready = standing is not None and standing.state is State.READY
        await self._supervisor.drain(replica, reason, timeout_s=DRAIN_S if ready else 0.0)

    async def _ready(self, assignment: Assignment, change: Change | None = None) -> None:
        """Raises Refusal where a replica has ended, or is not ready within the time for progress."""
        limit_s, name = assignment.flow.no_progress_timeout_s, assignment.replica
        ready = asyncio.create_task(self._board.reached(name, State.READY))
        over = asyncio.create_task(self._supervisor.over(name))
        unwanted = asyncio.create_task((change.unwanted if change else asyncio.Event()).wait())
        waits = {ready, over, unwanted}
        try:
            await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                return
            if change is not None:
                change.require_wanted()
        finally:
            for wait in waits:
                wait.cancel()
        error = self._error(name)
        what = "has ended before it was ready" if over.done() else f"is not ready after {limit_s:g} s"
        raise Refusal(f"{name} {what}{': ' * bool(error)}{error}; its log: {assignment.log_file}")


def _as(told: Assignment) -> Callable[[Assignment], Assignment]:
    """Gives a replica the options and cores of another assignment, and leaves where it goes on."""
    return lambda replica: replace(replica, options=told.options, threads=told.threads)
