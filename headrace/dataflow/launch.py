"""From a checked graph to an ended run.

    shared memory ─► runtime ─► queue ─► tables ─► replicas, each kept by the supervisor
                                                     │ the trainer is done ─► completed   (0)
                                                     │ a role is lost      ─► failed      (1)
                                                     │ Ctrl-C, SIGTERM     ─► interrupted (130)
    everything is stopped in reverse, telemetry is drained, the summary and the report are written

Invariant: whatever ends a run, the directory can be resumed from its newest complete checkpoint, and no
process, socket or shared-memory file outlives `launch`.
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from headrace.dataflow.cluster import this_machine
from headrace.dataflow.observe import observe
from headrace.dataflow.parse import to_yaml
from headrace.dataflow.plan import Plan, ServicePlan, plan
from headrace.dataflow.progress import Progress
from headrace.dataflow.report import closing, summary, write_html
from headrace.dataflow.rundir import RunDir
from headrace.dataflow.runtimes.base import Handle, Runtime
from headrace.dataflow.shared_memory import shared_folder
from headrace.dataflow.spec import GraphSpec
from headrace.dataflow.supervisor import STOP_TIMEOUT_S, RoleLost, Supervisor
from headrace.dataflow.telemetry import RUN_ENDED, RUN_STARTED, Telemetry
from headrace.services.base import Flow
from headrace.services.host import Assignment
from headrace.services.report import TABLE, QueueReport
from headrace.services.trainer.checkpoint import Checkpoint, newest
from headrace.transferqueue import Client, QueueError, TableStats

Status = Literal["completed", "failed", "interrupted"]

EXIT_CODES: dict[Status, int] = {"completed": 0, "failed": 1, "interrupted": 130}

START_ORDER = ("trainer", "rollout", "reference", "reward", "source")
"""The trainer first: its model takes longest to load, and all wait for its first weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    status: Status
    cause: str = ""


def launch(spec: GraphSpec, *, output: Path | None = None, resume: Path | None = None) -> int:
    """Runs a graph without errors to its end; returns the exit code.

    `resume`: a run directory to go on with, from its newest complete checkpoint.
    """
    run = RunDir.create(spec.name, output) if resume is None else RunDir.open(resume)
    planned = plan(spec, this_machine())
    run.graph.write_text(to_yaml(spec, resolved=True))
    run.plan.write_text(json.dumps(planned.to_json(), indent=1))
    with Progress(spec.steps) as progress, Telemetry(run, watch=progress.take) as telemetry:
        outcome = asyncio.run(_run(spec, planned, run, telemetry))
    figures = summary(run.path)
    run.summary.write_text(json.dumps(figures, indent=1))
    print(closing(figures, write_html(run.path)))
    if outcome.status == "failed":
        print(f"headrace: the run failed: {outcome.cause}", file=sys.stderr)
    if outcome.status != "completed":
        print(f"headrace: go on from the newest checkpoint with: headrace run {run.path}", file=sys.stderr)
    return EXIT_CODES[outcome.status]


async def _run(spec: GraphSpec, planned: Plan, run: RunDir, telemetry: Telemetry) -> Outcome:
    resumed = newest(run.checkpoints).checkpoint
    with shared_folder() as shared:
        async with _opened(_runtime(spec, planned, run)) as runtime:
            address, queue = await runtime.start_queue(shared / "queue")
            try:
                client = await Client.connect(address, holder="launch", context=runtime.zmq_context)
                flow = Launch(spec, planned, run, shared, address, resumed)
                return await flow.run(runtime, queue, client, telemetry)
            finally:
                await queue.stop(STOP_TIMEOUT_S)


@asynccontextmanager
async def _opened(runtime: Runtime) -> AsyncIterator[Runtime]:
    try:
        await runtime.open()
        yield runtime
    finally:
        await runtime.close()


def _runtime(spec: GraphSpec, planned: Plan, run: RunDir) -> Runtime:
    if spec.runtime == "local":
        from headrace.dataflow.runtimes.local import LocalRuntime

        return LocalRuntime()
    from headrace.dataflow.runtimes.ray import RayRuntime

    return RayRuntime(run.path, address=spec.ray_address, cpus=planned.cluster.cores)


class Launch:
    """One launch of a run over an open runtime and a running queue."""

    def __init__(
        self,
        spec: GraphSpec,
        planned: Plan,
        run: RunDir,
        shared: Path,
        address: str,
        resumed: Checkpoint | None,
    ) -> None:
        self._spec = spec
        self._planned = planned
        self._run = run
        self._shared = shared
        self._address = address
        self._resumed = resumed
        self._first_step = 0 if resumed is None else resumed.step

    async def run(self, runtime: Runtime, queue: Handle, client: Client, telemetry: Telemetry) -> Outcome:
        report = QueueReport(client, "launch")
        await client.create(TABLE)
        for table in self._planned.tables.values():
            await client.create(replace(table, first_step=self._first_step))
        observing = asyncio.create_task(observe(client, telemetry))
        report.event(RUN_STARTED, first_step=self._first_step, runtime=self._spec.runtime)
        supervisor = Supervisor(runtime, client, report, max_restarts=self._spec.max_restarts)
        outcome = Outcome(status="failed", cause="the launch itself was cancelled")
        try:
            outcome = await self._until_over(supervisor, queue)
        finally:
            await supervisor.stop()
            await self._settle(outcome, client, report, observing)
        return outcome

    async def _until_over(self, supervisor: Supervisor, queue: Handle) -> Outcome:
        """Waits for the trainers' end, or for what ends the run before."""
        kept = {asyncio.create_task(supervisor.keep(a)): a for a in self._assignments()}
        trainers = {task for task, assignment in kept.items() if assignment.kind == "trainer"}
        died = asyncio.create_task(queue.wait())
        with _stop_requested() as stop:
            asked = asyncio.create_task(stop.wait())
            pending: set[asyncio.Task[Any]] = {*kept, died, asked}
            try:
                while True:
                    done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                    if outcome := _outcome(done, trainers, died, asked):
                        return outcome
            finally:
                for task in (died, asked):
                    task.cancel()

    def _assignments(self) -> list[Assignment]:
        services = sorted(self._planned.services, key=lambda s: START_ORDER.index(s.kind))
        return [self._assignment(s, index) for s in services for index in range(s.replicas)]

    def _assignment(self, service: ServicePlan, index: int) -> Assignment:
        batch = self._planned.batches[service.table]
        return Assignment(
            kind=service.kind,
            node=service.node,
            index=index,
            run=self._spec.name,
            run_dir=self._run.path,
            shared_dir=self._shared,
            queue_address=self._address,
            seed=self._spec.seed,
            threads=service.threads,
            options=service.options,
            policy_name=service.policy_name,
            policy=service.policy,
            flow=Flow(
                table=service.table,
                steps=self._spec.steps,
                first_step=self._first_step,
                samples_per_prompt=batch.samples_per_prompt,
                prompts_per_step=batch.prompts_per_step,
                staleness=self._spec.staleness,
                temperature=batch.temperature,
                no_progress_timeout_s=self._spec.no_progress_timeout_s,
            ),
            resume=None if self._resumed is None else self._resumed.path,
        )

    async def _settle(
        self, outcome: Outcome, client: Client, report: QueueReport, observing: asyncio.Task[None]
    ) -> None:
        """Takes the queue's final figures and drains telemetry to the last record."""
        try:
            stats = await client.stats()
            for name in self._planned.tables:
                report.event("queue", table=name, **figures(stats.tables[name]))
            report.event(RUN_ENDED, status=outcome.status, cause=outcome.cause)
            await report.close()
            await client.end(TABLE.name)
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await observing
        except (QueueError, TimeoutError) as error:
            observing.cancel()
            print(f"headrace: the last telemetry is lost, the queue is gone: {error}", file=sys.stderr)
        finally:
            await client.close()


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


def _outcome(
    done: set[asyncio.Task[Any]],
    trainers: set[asyncio.Task[None]],
    died: asyncio.Task[None],
    asked: asyncio.Task[bool],
) -> Outcome | None:
    """What the tasks that ended make of the run; None: it goes on."""
    for task in done - {asked, died}:
        error = task.exception()
        if isinstance(error, RoleLost):
            return Outcome(status="failed", cause=str(error))
        if error is not None:
            raise error
    if died in done:
        reason = died.exception() or "its process returned"
        return Outcome(status="failed", cause=f"the queue's controller ended: {reason}")
    if all(task.done() for task in trainers):
        return Outcome(status="completed")
    return Outcome(status="interrupted") if asked in done else None


@contextmanager
def _stop_requested() -> Iterator[asyncio.Event]:
    """An event set by the first Ctrl-C or SIGTERM; a second one interrupts at once."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop() -> None:
        event.set()
        for number in before:
            loop.remove_signal_handler(number)

    for number in before:
        loop.add_signal_handler(number, stop)
    try:
        yield event
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
