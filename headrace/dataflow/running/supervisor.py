"""Keeps the replicas of a run alive, and says when a role has no way to go on.

    started ─► served ─► over                        its work is done, or it was stopped or retired
       ▲          └─► gave up, died or wedged ─► leases back ─► back-off ─┐
       └──────────────────────────────────────────────────────────────────┘   as its `on_failure` has it, at
                        most `max_restarts` times in a row, and not where it would end the same way

Invariant: a dead replica's leases are back in the queue before its replacement starts. A run goes on while
each role has a replica left; a role that lost its last, or one that is to stop the run, raises RoleLost with
the cause.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from headrace.dataflow.running.runtimes.base import ReplicaDied, ReplicaHandle, Runtime
from headrace.dataflow.running.watch import Limits, Wedged, always, lived
from headrace.services.base import Report
from headrace.services.errors import NoWayOn, ReplicaFailed, WeightsRefused
from headrace.services.host import Assignment
from headrace.services.pulse import Beat
from headrace.transferqueue import Client

BACKOFF_FIRST_S = 0.1
BACKOFF_MOST_S = 10.0
STEADY_AFTER_S = 60.0
"""A replica that lived this long starts its count of restarts anew."""
STOP_TIMEOUT_S = 30.0
LOOK_S = 2.0
"""For an answer that somebody at a terminal waits for."""
LOADING_LEAST_S = 120.0
"""A process that imports and loads answers nobody meanwhile."""

Again = Callable[[Assignment], Awaitable[Assignment]]
"""What a replacement is told, given what the replica was told that died; asked once its leases are back.
Raises NotAgain where nothing can take its place."""


Change = Callable[[Assignment], Assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """What becomes of a replica that was ended to go on otherwise."""

    change: Change
    back: Change
    """Where it fails before it has `settled`."""
    reason: str
    begun: asyncio.Event = field(default_factory=asyncio.Event, repr=False)


async def the_same(assignment: Assignment) -> Assignment:
    """For a role whose state is in the queue alone."""
    return assignment


def backoff_s(failures: int) -> float:
    """Seconds before the restart that follows so many failures in a row."""
    return min(BACKOFF_FIRST_S * 2 ** (failures - 1), BACKOFF_MOST_S)


class NotAgain(Exception):
    """Why a replica is not started again."""


class RoleLost(Exception):
    """A role has no replica left; names the service and the root cause."""


class Supervisor:
    """Starts, watches, restarts and stops the replicas of one run."""

    def __init__(
        self,
        runtime: Runtime,
        client: Client,
        report: Report,
        *,
        max_restarts: int,
        moving_s: Callable[[], float] = always,
    ) -> None:
        """`moving_s`: seconds for which the queue has had room."""
        self._moving_s = moving_s
        self._runtime = runtime
        self._client = client
        self._report = report
        self._max_restarts = max_restarts
        self._kept: dict[str, asyncio.Task[None]] = {}
        self._handles: dict[str, ReplicaHandle] = {}
        self._told: dict[str, Assignment] = {}
        self._nodes: dict[str, str] = {}
        """Where each replica was last."""
        self._left: Counter[str] = Counter()
        self._retired: set[str] = set()
        self._leaving: set[str] = set()
        self._on_trial: set[str] = set()
        self._renewals: dict[str, Renewal] = {}
        self._ways_back: dict[str, Change] = {}
        self._stopping = False

    def keep(
        self, assignment: Assignment, *, again: Again = the_same, trial: bool = False
    ) -> asyncio.Task[None]:
        """Starts a replica; the task ends when its work is over.

        The task raises RoleLost when its role has no way to go on, QueueError when the queue is gone. On
        `trial`, until it is `proven`, it is not started again where it fails, and the run goes on without it.
        """
        if trial:
            self._on_trial.add(assignment.replica)
        self._left[assignment.node] += 1
        self._told[assignment.replica] = assignment
        task = asyncio.create_task(self._keep(assignment, again), name=f"keep {assignment.replica}")
        self._kept[assignment.replica] = task
        return task

    def proven(self, replica: str) -> None:
        """From now on it is kept as any other."""
        self._on_trial.discard(replica)

    async def over(self, replica: str) -> None:
        """Returns once a replica is kept no longer, however it ended."""
        await asyncio.wait({self._kept[replica]})

    async def retire(self, node: str, reason: str) -> None:
        """Stops the replicas of a role that the run goes on without; the tasks of `keep` end, none raises."""
        self._retired.add(node)
        replicas = self.replicas(node)
        await self._end(replicas)
        for replica in replicas:
            self._report.event("retired", replica=replica, reason=reason)

    def replicas(self, node: str) -> list[str]:
        """Those of a role that are kept, by index."""
        kept = [name for name, task in self._kept.items() if _node(name) == node and not task.done()]
        return sorted(kept, key=_index)

    async def looks(self) -> dict[str, Beat | None]:
        """What each replica does now; None: it did not say so within LOOK_S."""
        handles = dict(self._handles)
        beats = await asyncio.gather(*map(_looked, handles.values()))
        return dict(zip(handles, beats, strict=True))

    def handle(self, replica: str) -> ReplicaHandle | None:
        """Of one that runs; None: there is none of that name, or it is being started."""
        return self._handles.get(replica)

    def kind(self, replica: str) -> str:
        """Of its node; "" where none of that name was ever kept."""
        return self._told[replica].kind if replica in self._told else ""

    async def drain(self, replica: str, reason: str, *, timeout_s: float) -> None:
        """Lets a replica finish what it holds, and ends it; after the time it hands the rest back.

        The run goes on without it; the task of its `keep` ends, and does not raise. One that has ended by
        itself stays as it is.
        """
        task = self._kept[replica]
        if task.done():
            return
        self._leaving.add(replica)
        try:
            if (handle := self._handles.get(replica)) is not None:
                with suppress(ReplicaFailed, ReplicaDied, TimeoutError):
                    async with asyncio.timeout(timeout_s):
                        await handle.drain()
                        await asyncio.wait({task})
            if not task.done():
                await self._end([replica])
        finally:
            self._leaving.discard(replica)
        self._left[_node(replica)] -= 1
        self._report.event("drained", replica=replica, reason=reason)

    async def renew(self, replica: str, renewal: Renewal, *, timeout_s: float) -> None:
        """Ends the only replica of a role, which hands back what it holds and keeps what it made, and starts
        it anew, changed, from where `again` of its `keep` says; returns once that is begun. One that is being
        started is ended as soon as it is.

        Its process is killed after `timeout_s`. Where it has none of its own TimeoutError is raised, and it
        is changed once it ends. A role that cannot go on from what it kept is lost.
        """
        self._renewals[replica] = renewal
        if (handle := self._handles.get(replica)) is not None:
            with suppress(ReplicaFailed, ReplicaDied):
                await handle.stop(timeout_s)
        begun = asyncio.create_task(renewal.begun.wait())
        await asyncio.wait({begun, self._kept[replica]}, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()

    def settled(self, replica: str) -> bool:
        """Whether one that was renewed goes on as it was asked to; from now on it does not go back."""
        return self._ways_back.pop(replica, None) is not None

    async def stop(self) -> None:
        """Stops every replica; what they hold goes back to the queue. Those being started are not."""
        self._stopping = True
        await self._end(list(self._kept))

    async def _end(self, replicas: Sequence[str]) -> None:
        for replica in replicas:
            if replica not in self._handles:
                self._kept[replica].cancel()
        handles = {replica: self._handles[replica] for replica in replicas if replica in self._handles}
        ends = await asyncio.gather(
            *(handle.stop(STOP_TIMEOUT_S) for handle in handles.values()), return_exceptions=True
        )
        for replica, end in zip(handles, ends, strict=True):
            if isinstance(end, BaseException):
                reason = f"{type(end).__name__}: not stopped within {STOP_TIMEOUT_S:g} s. {end}"
                self._report.event("not_stopped", replica=replica, reason=reason)
                self._kept[replica].cancel()
        kept = [self._kept[replica] for replica in replicas]
        for late in (await asyncio.wait(kept, timeout=STOP_TIMEOUT_S))[1] if kept else ():
            late.cancel()
        await asyncio.gather(*kept, return_exceptions=True)

    def _is_ending(self, assignment: Assignment) -> bool:
        gone = assignment.node in self._retired or assignment.replica in self._leaving
        return self._stopping or gone

    async def _keep(self, assignment: Assignment, again: Again) -> None:
        failures = restarts = 0
        while not self._is_ending(assignment):
            started = time.monotonic()
            try:
                await self._live(assignment, restarts)
                if assignment.replica not in self._renewals or self._is_ending(assignment):
                    return
                assignment = await self._renewed(assignment, again)
            except (ReplicaFailed, ReplicaDied) as error:
                failures = 1 if time.monotonic() - started > STEADY_AFTER_S else failures + 1
                await self._mourn(assignment, error)
                if self._is_ending(assignment) or self._failed_on_trial(assignment, error):
                    return
                try:
                    assignment = await self._again(assignment, again, error, failures)
                    assignment = self._changed(assignment)
                except NotAgain as why:
                    self._give_up(assignment, failures, error, why)
                    return
            restarts += 1

    async def _renewed(self, ended: Assignment, again: Again) -> Assignment:
        reason = self._renewals[ended.replica].reason
        await self._client.evict(ended.replica, reason)
        try:
            return self._changed(await again(ended))
        except NotAgain as why:
            self._give_up(ended, 0, ReplicaFailed(f"it was ended: {reason}"), why)
            raise

    def _changed(self, told: Assignment) -> Assignment:
        """By what was asked of it, or back again where it failed since."""
        if (renewal := self._renewals.pop(told.replica, None)) is not None:
            self._ways_back[told.replica] = renewal.back
            self._report.event("renewed", replica=told.replica, reason=renewal.reason)
            renewal.begun.set()
            return renewal.change(told)
        if (back := self._ways_back.pop(told.replica, None)) is None:
            return told
        self._report.event("taken_back", replica=told.replica, reason="it failed before it was ready")
        return back(told)

    def _failed_on_trial(self, assignment: Assignment, error: Exception) -> bool:
        if assignment.replica not in self._on_trial:
            return False
        self._on_trial.discard(assignment.replica)
        self._left[assignment.node] -= 1
        why = "it was on trial, and those of its role go on"
        self._report.event("given_up", replica=assignment.replica, reason=str(error), not_again=why)
        return True

    async def _again(self, died: Assignment, again: Again, error: Exception, failures: int) -> Assignment:
        """What the replacement is told, once it is time for it; raises NotAgain where there is none."""
        if isinstance(error, NoWayOn):
            raise NotAgain("another would end the same way")
        if (why := self._not_again(died, failures)) is not None:
            raise NotAgain(why)
        await asyncio.sleep(backoff_s(failures))
        if isinstance(error, WeightsRefused):
            await self._rewritten(died.policy_name)
        avoid = self._nodes.get(died.replica, "") if died.options.on_failure == "replace" else ""
        return await again(replace(died, avoid=avoid))

    async def _rewritten(self, policy: str) -> None:
        """Has the policy's trainer write its newest version once more, where it is there."""
        for replica, kept in self._told.items():
            if kept.kind == "trainer" and kept.policy_name == policy and replica in self._handles:
                self._report.event("weights_rewritten", replica=replica)
                with suppress(ReplicaFailed, ReplicaDied):
                    await self._handles[replica].rewrite_weights()

    def _not_again(self, died: Assignment, failures: int) -> str | None:
        """Why the role's `on_failure` has no replacement start; None: one does."""
        policy, others = died.options.on_failure, self._left[died.node] - 1
        if policy == "stop":
            return "on_failure is stop"
        if policy == "degrade" and others:
            return f"on_failure is degrade, and {others} of its role go on"
        return f"max_restarts is {self._max_restarts}" if failures > self._max_restarts else None

    async def _live(self, assignment: Assignment, restarts: int) -> None:
        handle = await self._runtime.start(assignment)
        self._handles[assignment.replica] = handle
        self._nodes[assignment.replica] = handle.node
        told = {"pid": handle.pid, "restarts": restarts, **({"ray_node": handle.node} if handle.node else {})}
        self._report.event("started", replica=assignment.replica, **told)
        try:
            if assignment.replica in self._renewals:
                with suppress(ReplicaFailed, ReplicaDied, TimeoutError):
                    await handle.stop(assignment.flow.no_progress_timeout_s)
            await lived(handle, assignment.replica, _limits(assignment), self._moving_s)
        finally:
            del self._handles[assignment.replica]

    async def _mourn(self, assignment: Assignment, error: Exception) -> None:
        returned = await self._client.evict(assignment.replica, str(error))
        self._report.event(
            _ended_as(error),
            replica=assignment.replica,
            reason=str(error),
            rows_returned=returned,
        )

    def _give_up(self, assignment: Assignment, failures: int, error: Exception, why: NotAgain) -> None:
        self._left[assignment.node] -= 1
        self._report.event("given_up", replica=assignment.replica, reason=str(error), not_again=str(why))
        left = self._left[assignment.node]
        if left == 0 or assignment.options.on_failure == "stop":
            there = f"{left or 'no'} replica{'s' * (left > 1)} left"
            raise RoleLost(
                f"service {assignment.node!r} ({assignment.kind}) has {there}: {assignment.replica} failed "
                f"{failures} time(s) in a row, last with: {error}\n  not started again: {why}\n"
                f"  its log: {assignment.log_file}"
            ) from error


async def _looked(handle: ReplicaHandle) -> Beat | None:
    with suppress(TimeoutError, ReplicaDied, ReplicaFailed):
        async with asyncio.timeout(LOOK_S):
            return await handle.look()
    return None


def _ended_as(error: Exception) -> str:
    """The event's name."""
    if isinstance(error, Wedged):
        return "wedged"
    return "died" if isinstance(error, ReplicaDied) else "failed"


def _limits(assignment: Assignment) -> Limits:
    longest_s = assignment.flow.no_progress_timeout_s
    options = assignment.options
    ready_s = options.stall_limit_s(longest_s)
    return Limits(ready_s=ready_s, loading_s=max(longest_s, ready_s, LOADING_LEAST_S))


def _node(replica: str) -> str:
    return replica.rpartition("/")[0]


def _index(replica: str) -> int:
    return int(replica.rpartition("/")[2])
