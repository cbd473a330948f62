"""From a checked graph to an ended run.

    shared memory ─► runtime ─► queue ─► tables ─► replicas, each kept by the supervisor
                                                     │ a trainer is done   ─► what it alone needed is retired
                                                     │ the last is         ─► completed   (0)
                                                     │ a role is lost      ─► failed      (1)
                                                     │ Ctrl-C, SIGTERM     ─► interrupted (130)
    everything is stopped in reverse, telemetry is drained, the summary and the report are written

Invariant: whatever ends a run, the directory can be resumed from its newest complete checkpoint, and no
process, socket or shared-memory file outlives `launch`.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from headrace.dataflow.control.server import serving
from headrace.dataflow.language.parse import to_yaml
from headrace.dataflow.language.rooted import rooted
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.plan import Plan, plan
from headrace.dataflow.planning.precision import settled
from headrace.dataflow.planning.ray_cluster import cluster_of
from headrace.dataflow.planning.topology import leased_table
from headrace.dataflow.record.board import Board
from headrace.dataflow.record.progress import Progress
from headrace.dataflow.record.report import write_html
from headrace.dataflow.record.rundir import RunDir, RunDirError
from headrace.dataflow.record.seen import Seen
from headrace.dataflow.record.summary import closing, summary
from headrace.dataflow.record.telemetry import QUEUE, RUN_ENDED, RUN_STARTED, Speakers, Telemetry
from headrace.dataflow.running.assignments import Places, assignments
from headrace.dataflow.running.beginnings import Beginnings, StoreUnreachable
from headrace.dataflow.running.changes import Changes
from headrace.dataflow.running.current import Current
from headrace.dataflow.running.drills import Drills
from headrace.dataflow.running.interrupts import Interrupts
from headrace.dataflow.running.kept import Kept
from headrace.dataflow.running.kept_queue import KeptQueue, require_rows
from headrace.dataflow.running.live import Live
from headrace.dataflow.running.locks import Held, held
from headrace.dataflow.running.needs import AWAITED, NEEDLESS, Needs
from headrace.dataflow.running.observe import DirectReport, drain, observed
from headrace.dataflow.running.room_left import RoomLeft, followed
from headrace.dataflow.running.runtimes.base import QueuePlace, ReplicaDied, Runtime, RuntimeUnavailable
from headrace.dataflow.running.runtimes.loopback import import_ray_for_this_machine
from headrace.dataflow.running.service_changes import Keep, ServiceChanges
from headrace.dataflow.running.shared_memory import owned_folder, root
from headrace.dataflow.running.supervisor import RoleLost, Supervisor
from headrace.dataflow.running.tracked import tracked
from headrace.services.errors import ReplicaFailed, describe
from headrace.services.host import Assignment
from headrace.transferqueue import Client, QueueError, TableStats

Status = Literal["completed", "failed", "interrupted"]

EXIT_CODES: dict[Status, int] = {"completed": 0, "failed": 1, "interrupted": 130}

FAILURES = (RuntimeUnavailable, StoreUnreachable, ReplicaFailed, ReplicaDied, QueueError)
"""What may keep a run from starting; anything else is a fault of ours and travels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    status: Status
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the replicas of a launch stand on; taken away in reverse when it ends."""

    runtime: Runtime
    queue: KeptQueue
    client: Client
    """The launcher's own."""
    observing: asyncio.Task[None]
    """Ends when telemetry does."""
    room: RoomLeft
    shared: Path


def launch(spec: GraphSpec, *, output: Path | None = None, resume: Path | None = None) -> int:
    """Runs a graph without errors to its end; returns the exit code.

    `resume`: a run directory to go on with, from its newest complete checkpoint. Raises RunDirError where
    the directory cannot be used or another launch is using it.
    """
    run = RunDir.create(spec.name, output) if resume is None else RunDir.open(resume)
    require_rows(spec, run.queue)
    try:
        with held(run.path):
            outcome = _record(rooted(spec, Path.cwd()), run)
    except Held as error:
        raise RunDirError(f"{run.path} is in use by another launch; stop it first, or wait") from error
    if outcome.status == "failed":
        print(f"headrace: the run failed: {outcome.cause}", file=sys.stderr)
    if outcome.status != "completed":
        print(f"headrace: go on from the newest checkpoint with: headrace run {run.path}", file=sys.stderr)
    return EXIT_CODES[outcome.status]


def _record(spec: GraphSpec, run: RunDir) -> Outcome:
    """Runs a graph and leaves everything about it in the run directory."""
    spec = settled(spec)
    planned = plan(spec, cluster_of(spec)[0])
    run.graph.write_text(to_yaml(spec, resolved=True))
    run.plan.write_text(json.dumps(planned.to_json(), indent=1))
    speakers = Speakers.of(spec)
    steps = {policy: spec.steps_of(trainer) for trainer, policy in speakers.trainers.items()}
    board = Board()
    with (
        Progress(steps) as progress,
        Telemetry(run, speakers, watch=(progress.take, board.take)) as telemetry,
        tracked(spec, run, telemetry),
    ):
        outcome = asyncio.run(_run(spec, planned, run, telemetry, board))
    figures = summary(run.path)
    run.summary.write_text(json.dumps(figures, indent=1))
    print(closing(figures, write_html(run.path)))
    return outcome


async def _run(spec: GraphSpec, planned: Plan, run: RunDir, telemetry: Telemetry, board: Board) -> Outcome:
    report = DirectReport(telemetry)
    with Interrupts() as interrupts:
        try:
            outcome = await _up(Launch(spec, planned, run, report, interrupts, telemetry, board))
        except asyncio.CancelledError:
            if not interrupts.count:
                raise
            outcome = Outcome(status="interrupted", cause="cut short")
        except FAILURES as error:
            outcome = Outcome(status="failed", cause=describe(error))
    report.event(RUN_ENDED, status=outcome.status, cause=outcome.cause)
    return outcome


async def _up(launch: "Launch") -> Outcome:
    with owned_folder(root()) as shared:
        async with (
            _opened(launch.runtime(shared)) as runtime,
            launch.queue(runtime, shared) as queue,
            await Client.connect(
                queue.address,
                holder="launch",
                timeout_s=queue.timeout_s,
                context=runtime.zmq_context,
                keys=runtime.keys,
            ) as client,
            followed(client, launch.report) as room,
            observed(client, launch.telemetry) as observing,
        ):
            ground = Ground(
                runtime=runtime, queue=queue, client=client, observing=observing, room=room, shared=shared
            )
            return await launch.run(ground)


@asynccontextmanager
async def _opened(runtime: Runtime) -> AsyncIterator[Runtime]:
    try:
        await runtime.open()
        yield runtime
    finally:
        await runtime.close()


class Launch:
    """One launch of a run."""

    def __init__(
        self,
        spec: GraphSpec,
        planned: Plan,
        run: RunDir,
        report: DirectReport,
        interrupts: Interrupts,
        telemetry: Telemetry,
        board: Board,
    ) -> None:
        self.telemetry = telemetry
        self._board = board
        self._spec = spec
        self._planned = planned
        self._run = run
        self.report = report
        self._interrupts = interrupts
        self._beginnings = Beginnings(spec, run, report)

    def runtime(self, shared: Path) -> Runtime:
        if self._spec.runtime == "local":
            from headrace.dataflow.running.runtimes.local import LocalRuntime

            return LocalRuntime()
        address, existing = self._spec.ray_address, None
        if address is None:
            import_ray_for_this_machine()
        from headrace.dataflow.running.runtimes.ray import Existing, RayRuntime

        if address is not None:
            existing = Existing(address=address, shared=shared, report=self.report)
        cluster = self._planned.cluster
        return RayRuntime(existing=existing, cpus=cluster.cores, gpus=int(cluster.gpus))

    def queue(self, runtime: Runtime, shared: Path) -> KeptQueue:
        options = self._spec.queue
        place = QueuePlace(
            directory=self._run.queue if options.durable else shared / "queue",
            options=options,
            log_file=self._run.logs / "queue.log",
        )
        return KeptQueue(runtime, place, self.report, max_restarts=self._spec.max_restarts)

    async def run(self, ground: Ground) -> Outcome:
        places = self._places(ground)
        needs = self._needs(places, ground.client)
        told = [a for a in assignments(self._spec, self._planned, places) if a.node in needs.started]
        for name, table in self._planned.tables.items():
            await ground.client.create(replace(table, first_step=places.starts[name].step))
        if self._spec.queue.durable:
            await self._return_to(told, ground.client)
        await needs.reopen()
        steps = {name: start.step for name, start in places.starts.items()}
        first = next(iter(steps.values())) if len(steps) == 1 else steps
        self.report.event(RUN_STARTED, first_step=first, runtime=self._spec.runtime)
        supervisor = Supervisor(
            ground.runtime,
            ground.client,
            self.report,
            max_restarts=self._spec.max_restarts,
            moving_s=lambda: ground.room.moving_s,
        )
        kept = Kept()
        keep = partial(self._keep, supervisor, kept, ground.client)
        live = self._live(ground, places, told, supervisor, keep)
        try:
            for assignment in told:
                keep(assignment)
            awaited = {a.node: task for task, a in kept.tasks.items() if a.kind in AWAITED}
            async with serving(live, self._run.path), live.autoscaled():
                outcome = await self._until_over(kept, needs.follow(awaited, supervisor), ground)
        finally:
            await supervisor.stop()
        await self._settle(ground)
        return outcome

    def _live(
        self,
        ground: Ground,
        places: Places,
        told: Sequence[Assignment],
        supervisor: Supervisor,
        keep: Keep,
    ) -> Live:
        current = Current(
            self._spec,
            cluster=self._planned.cluster,
            tell=lambda spec, planned: assignments(spec, planned, places),
        )
        seen = Seen.of(self._run)
        self.telemetry.follow(seen.take)
        changes, board = Changes(self.report), self._board
        return Live(
            current,
            ServiceChanges(current, told, changes=changes, board=board, supervisor=supervisor, keep=keep),
            changes=changes,
            board=board,
            seen=seen,
            supervisor=supervisor,
            client=ground.client,
            drills=Drills(supervisor, ground.queue, self.report, allowed=self._spec.drills),
            stop=self._interrupts.asked.set,
        )

    def _keep(
        self,
        supervisor: Supervisor,
        kept: Kept,
        client: Client,
        assignment: Assignment,
        *,
        trial: bool = False,
    ) -> None:
        again = self._beginnings.again(assignment, client)
        kept.add(supervisor.keep(assignment, again=again, trial=trial), assignment)

    def _needs(self, places: Places, client: Client) -> Needs:
        tables = {name: str(leased_table(self._spec, name)) for name in self._spec.of_kind("trainer")}
        steps_done = {name: places.starts[table].step for name, table in tables.items()}
        needs = Needs(self._spec, self._planned, client, steps_done=steps_done)
        if absent := [s.node for s in self._planned.services if s.node not in needs.started]:
            self.report.event("not_started", nodes=absent, reason=NEEDLESS)
        return needs

    async def _return_to(self, told: Sequence[Assignment], client: Client) -> None:
        """What the queue held for an earlier launch, which may have been paused, is free again, and its
        trainers are back at their checkpoints."""
        await client.pause([])
        for assignment in told:
            await client.evict(assignment.replica, "the launch that it belonged to has ended")
            if assignment.kind == "trainer":
                await client.rewind(assignment.node, assignment.flow.first_step)

    def _places(self, ground: Ground) -> Places:
        return Places(
            run_dir=self._run.path,
            shared_dir=ground.shared,
            queue_address=ground.queue.address,
            queue_timeout_s=ground.queue.timeout_s,
            starts={table: self._beginnings.of_table(table) for table in self._planned.tables},
            checkpoints={policy: self._beginnings.checkpoints(policy) for policy in self._spec.policies},
        )

    async def _until_over(self, kept: Kept, follow: Coroutine[Any, Any, None], ground: Ground) -> Outcome:
        """Waits for the trainers' end, or for what ends the run before; `follow` goes along with it."""
        died = asyncio.create_task(ground.queue.over())
        asked = asyncio.create_task(self._interrupts.asked.wait())
        following = asyncio.create_task(follow)
        self._interrupts.patient = True
        done: set[asyncio.Task[Any]] = set()
        try:
            while True:
                if died in done:
                    return _gone("the queue's controller", died)
                if ground.observing in done:
                    return _gone("telemetry", ground.observing)
                if following in done:
                    await following
                if outcome := _outcome(done, kept.tasks):
                    return outcome
                if asked in done:
                    return Outcome(status="interrupted")
                done = await kept.ended(died, ground.observing, asked, following)
        finally:
            for task in (died, asked, following):
                task.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _settle(self, ground: Ground) -> None:
        """Drains telemetry to the last record and takes the queue's final figures."""
        if ground.room.short:
            self.report.event("telemetry_lost", reason="the queue has no room to hand it over")
            return
        try:
            ground.observing.cancel()
            await asyncio.wait({ground.observing})
            await drain(ground.client, self.telemetry)
            stats = await ground.client.stats()
        except QueueError as error:
            self.report.event("telemetry_lost", reason=f"the queue is gone: {error}")
            return
        for name in self._planned.tables:
            lasting = self._spec.queue.durable
            self.report.event(QUEUE, table=name, lasting=lasting, **figures(stats.tables[name]))


def figures(table: TableStats) -> dict[str, Any]:
    """What the event `queue` says of a table at the end of a launch."""
    return {
        "steps": table.step,
        "created": table.created,
        "trained": table.trained,
        "dropped": table.dropped,
        "quarantined": table.quarantined,
        "quarantine": {str(uid): reason for uid, reason in table.quarantine.items()},
        "violations": table.violations,
        "duplicated": table.duplicated,
        "lost": table.lost,
        "staleness_trained": {str(s): rows for s, rows in table.staleness_trained.items()},
    }


def _outcome(done: set[asyncio.Task[Any]], kept: dict[asyncio.Task[None], Assignment]) -> Outcome | None:
    """What the replicas that ended make of the run; None: it goes on."""
    for task in done & kept.keys():
        if not task.cancelled() and (error := task.exception()) is not None:
            return Outcome(
                status="failed", cause=str(error) if isinstance(error, RoleLost) else describe(error)
            )
    awaited = [task for task, told in kept.items() if told.kind in AWAITED]
    return Outcome(status="completed") if all(task.done() for task in awaited) else None


def _gone(what: str, task: asyncio.Task[None]) -> Outcome:
    return Outcome(status="failed", cause=f"{what} ended: {task.exception() or 'it returned'}")
