"""The trainer: whole groups in as they finish, one optimizer step and one published version a batch.

    lease groups ─► filter ─► credit ─► accumulate   until the step has its prompts
    step ─► commit ─► the next step, beside which its version goes out; a checkpoint every so often

An update of several optimizer steps begins when the batch is whole; it too makes one version. In a step in
which the policy is frozen nothing is accumulated and no optimizer step is taken, all else is as ever: the
version that it makes has the weights of the one before. The learning rate goes by the step, frozen or not.

Invariant: the samples of a step are committed with it, exactly once, before its version is published. A
checkpoint is of a committed step: one that ended between the update and its commit leaves none.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from transformers.utils.logging import disable_progress_bar

from headrace.algorithms.base import Algorithm
from headrace.algorithms.diagnostics import clipping_is_off
from headrace.algorithms.filters import build_filter
from headrace.algorithms.registry import build
from headrace.services.base import Context
from headrace.services.clock import ActivityClock
from headrace.services.data_position import DataPosition
from headrace.services.errors import NoRoom, RanksFailed, TrainingError, describe
from headrace.services.options import TrainerOptions
from headrace.services.trainer import checkpoint
from headrace.services.trainer.backend import Backend, NonFiniteGradientError, StepResult
from headrace.services.trainer.backends import open_backend
from headrace.services.trainer.barrier import reached
from headrace.services.trainer.beside import beside
from headrace.services.trainer.checkpointing import Checkpointing
from headrace.services.trainer.credited import column, credited, ordered
from headrace.services.trainer.intake import Intake, Judged
from headrace.services.trainer.ledger import Ledger, intake_metrics, queue_metrics, staleness_limit
from headrace.services.trainer.publishing import Publishing
from headrace.services.trainer.samples import Samples
from headrace.services.trainer.shown import Shown
from headrace.services.trainer.update import metrics as update_metrics
from headrace.services.trainer.update import optimizer_steps
from headrace.services.transforms import Transforms
from headrace.transferqueue import EndOfData, Lease, Rows, TableStats

T = TypeVar("T")


class Trainer:
    """Leads its policy: its steps are the policy's versions."""

    def __init__(self) -> None:
        self._compute = ThreadPoolExecutor(1, thread_name_prefix="trainer")
        self._opened: Backend | None = None
        self._publishing = Publishing()
        self._clock = ActivityClock()
        self._data = DataPosition()
        self._checkpointing = Checkpointing()
        self._committed = 0
        self._torn = False
        """Whether the weights hold an update that is not committed."""
        self._finishing: asyncio.Task[None] | None = None
        self._batch: Samples | None = None
        """The step's batch where its update waits for the last group."""

    async def setup(self, context: Context) -> None:
        self._context = context
        self._options: TrainerOptions = context.options
        self._publishing.open(context)
        self._algorithm = self._built(context.flow.first_step)
        self._intake = Intake(
            None if self._options.filter is None else build_filter(self._options.filter),
            groups_per_step=context.flow.prompts_per_step,
            max_attempts=self._options.max_attempts,
            when_used_up=self._options.when_used_up,
        )
        self._committed = context.flow.first_step
        self._bound = staleness_limit(context.flow.staleness)
        self._transforms = await self._run(Transforms, context.transforms)
        await self._run(self._load)
        self._checkpointing.open(context, self._backend, self._tokenizer, self._run)
        if context.resume is not None:
            await self._checkpointing.resumed()
        await self._publish(self._committed)
        await self._publishing.out()

    @property
    def _backend(self) -> Backend:
        assert self._opened is not None, "setup comes first"
        return self._opened

    def _built(self, step: int) -> Algorithm:
        return build(self._options.algorithm, max_new_tokens=self._context.flow.max_new_tokens, step=step)

    def _load(self) -> None:
        context = self._context
        disable_progress_bar()
        opened = open_backend(context, self._algorithm)
        self._tokenizer, self._opened = opened.tokenizer, opened.backend
        if context.resume is not None:
            found = checkpoint.read(context.resume)
            self._backend.load(found.path)
            self._data = DataPosition.from_json(found.values["data_position"])
            if (saved := found.values.get("filter")) is not None:
                self._intake.load_state(saved)
        self._filter_state = self._intake.state()

    async def run(self) -> None:
        """Returns after the run's last step. Raises TrainingError naming the step that cannot be taken."""
        context, flow = self._context, self._context.flow
        for step in range(flow.first_step, flow.steps):
            await self._checkpointing.has_room()
            with self._clock.during("idle_wait_weights"):
                await reached(context.client, flow.barrier, step, timeout_s=flow.no_progress_timeout_s)
            await self._step(step)
        await self._publishing.out()
        await self._save()
        await self._checkpointing.out()
        await self._checkpointing.copied()
        if flow.trainers > 1:
            await context.client.finish(context.node)

    async def _step(self, step: int) -> None:
        started = time.monotonic()
        ledger = Ledger(step=step, own=self._context.flow.own_rows, shown=self._to_show(step))
        if self._options.algorithm.annealed():
            self._algorithm = self._built(step)
        self._intake.begin(step)
        whole = (
            self._algorithm.needs_full_batch
            or not self._options.update.streams
            or self._context.flow.deterministic
        )
        taken: list[Judged] = []
        while (missing := self._intake.missing) > 0:
            lease = await self._lease(step, missing)
            leased = self._context.trace.now()
            with self._clock.during("busy"), self._context.pulse.working(f"train on rows of step {step}"):
                taken.append(judged := await self._judge(lease, ledger))
                waits = whole and self._intake.missing > 0
                if waits or self._is_frozen(step) or not any(len(each.kept) for each in taken):
                    ledger.add(judged, leased=leased)
                    continue
                learning = self._run(self._learn, taken, step)
                taken = []
                ledger.add(judged, leased=leased)
                began = time.monotonic()
                await learning
                await self._context.faults.after_work(time.monotonic() - began)
        await self._check_staleness(ledger)
        self._finishing = asyncio.ensure_future(self._finish(ledger, started))
        await asyncio.shield(self._finishing)

    async def _check_staleness(self, ledger: Ledger) -> None:
        """The knob may be another than at the start; the queue knows the bounds of the rows that it has."""
        if ledger.staleness_max > self._bound:
            self._bound = (await self._context.client.stats()).tables[self._context.flow.table].bound
        if ledger.staleness_max > self._bound:
            raise TrainingError(
                f"step {ledger.step}: a sample of staleness {ledger.staleness_max} was handed out, "
                f"the bound is {self._bound:g}"
            )

    def _to_show(self, step: int) -> Shown:
        rows = self._context.flow.prompts_per_step * self._context.flow.samples_per_prompt
        most = 0 if self._algorithm.trains_values else self._options.show_samples
        return Shown(step, most=most, rows_per_step=rows)

    def _is_frozen(self, step: int) -> bool:
        return any(first <= step < thaw for first, thaw in self._context.policy.freeze)

    async def _judge(self, lease: Lease, ledger: Ledger) -> Judged:
        """What the filter makes of a lease; what it drops is out of the queue on return."""
        if not self._intake.judges:
            return self._intake.take(lease.rows, again=lease.again)
        judged = await self._run(partial(self._intake.take, lease.rows, again=lease.again))
        for reason, uids in judged.dropped.items():
            await self._context.client.drop(lease.table, uids, reason)
            ledger.drop(uids)
        return judged

    def _learn(self, taken: Sequence[Judged], step: int) -> None:
        """Credits rows and takes their gradient, or keeps them for an update of the whole batch."""
        rows = [judged.kept for judged in taken if len(judged.kept)]
        if self._context.flow.deterministic:
            rows = ordered(rows)
        anchored = not self._options.update.streams
        samples = credited(
            rows,
            self._algorithm,
            needs=self._options.algorithm.needs(),
            progress=step / self._context.flow.steps,
            masked=frozenset().union(*(judged.masked for judged in taken)),
            before=self._before(rows, anchored),
            anchored=anchored,
        )
        if anchored:
            self._batch = samples
        else:
            self._backend.accumulate(samples, self._algorithm)

    def _before(self, rows: Sequence[Rows], anchored: bool) -> dict[str, list[np.ndarray]] | None:
        """What the policy says of the answers before the update, where somebody asks for it; of a value model
        a critic node has said it already."""
        if self._algorithm.trains_values:
            return None
        asked = ("values", "mean_logprobs") if anchored else ("values",)
        names = [name for name in self._algorithm.outputs() if name in asked]
        if not names and not anchored:
            return None
        groups = np.concatenate([each.groups for each in rows])
        return self._backend.before(column(rows, "prompt_ids"), column(rows, "response_ids"), groups, names)

    async def _lease(self, step: int, groups: int) -> Lease:
        context = self._context
        try:
            lease = await beside(
                context.client.lease(
                    context.node,
                    groups * context.flow.samples_per_prompt,
                    version=step,
                    timeout_s=context.flow.no_progress_timeout_s,
                ),
                self._publishing.going,
                self._checkpointing.going,
            )
        except EndOfData as error:
            raise TrainingError(
                f"step {step} of {context.flow.steps} lacks {groups} prompts and the data has "
                f"ended{self._intake.counts()}; "
                "set the source's epochs higher or leave it out, or ask for fewer steps"
            ) from error
        return replace(lease, rows=await self._run(self._transforms, lease.rows))

    async def _finish(self, ledger: Ledger, started: float) -> None:
        """Everything between the last gradient of a step and its commit; not to be torn apart. Its version is
        published beside the next step."""
        with self._clock.during("idle_wait_weights"):
            waited_s = await self._publishing.out()
        publish_s = self._publishing.seconds
        with self._clock.during("busy"), self._context.pulse.working(f"finish step {ledger.step}"):
            frozen = self._is_frozen(ledger.step)
            results = [] if frozen else await self._run(self._update, ledger.step)
            committed = asyncio.ensure_future(self._commit(ledger))
            try:
                await self._publish(ledger.step + 1, committed)
            finally:
                await committed
        table = (await self._context.client.stats()).tables[self._context.flow.table]
        if self._context.flow.from_source:
            self._data = self._data.without(table.quarantine)
        self._report(ledger, results, table, time.monotonic() - started, publish_s, waited_s)
        await self._run(ledger.shown.decode, self._tokenizer)
        ledger.shown.report(self._context.report)
        every = self._options.checkpoint_every
        if every and self._committed % every == 0:
            await self._save()

    def _update(self, step: int) -> list[StepResult]:
        batch, self._batch = self._batch, None
        results: list[StepResult] = []
        self._torn = True
        try:
            for result in optimizer_steps(
                self._backend,
                self._options.update,
                batch,
                self._algorithm,
                step=step,
                seed=self._context.seed,
            ):
                results.append(result)
        except NonFiniteGradientError:
            self._torn = any(not result.skipped for result in results)
            raise
        return results

    async def _commit(self, ledger: Ledger) -> None:
        context, made = self._context, self._context.trace.now()
        await context.client.commit(context.node, ledger.step, np.array(ledger.uids))
        for uids, leased in ledger.leases:
            context.trace.rows(context.flow.table, uids, leased=leased, made=made)
        if self._context.flow.from_source:
            self._data = self._data.advance(ledger.groups).without(ledger.dropped)
        self._filter_state = self._intake.state()
        self._committed, self._torn = ledger.step + 1, False

    async def _publish(self, version: int, committed: "asyncio.Future[None] | None" = None) -> None:
        """Begins to; the weights stay as they are until the version is out."""
        self._publishing.begin(version, await self._run(self._backend.weights), committed)

    async def rewrite_weights(self) -> None:
        """Writes the newest version once more, unless the next is on its way: a reader found it damaged."""
        if self._opened is not None:
            await self._run(self._rewrite)

    def _rewrite(self) -> None:
        if not self._torn:
            self._publishing.write(self._committed, self._backend.weights())

    def _report(
        self,
        ledger: Ledger,
        results: Sequence[StepResult],
        table: TableStats,
        step_s: float,
        publish_s: float,
        waited_s: float,
    ) -> None:
        """The metrics of a step, under the number of the version that it started from."""
        metrics = {
            **ledger.metrics(self._bound),
            **queue_metrics(table),
            **intake_metrics(self._intake),
            **update_metrics(results, of="critic" if self._algorithm.trains_values else "actor"),
            "perf/step_time": step_s,
            "perf/tokens_per_s": ledger.tokens / step_s,
            "perf/samples_per_s": ledger.trained / step_s,
            "sync/publish_seconds": publish_s,
            "sync/waited_seconds": waited_s,
            **(
                {"data/prompts_consumed": float(self._data.consumed)}
                if self._context.flow.from_source
                else {}
            ),
        }
        self._context.report.metrics(metrics, step=ledger.step)
        self._context.report.metrics({**self._clock.figures()})
        if clipping_is_off(metrics, staleness=ledger.staleness_max):
            self._context.report.event(
                "clipping_is_off",
                step=ledger.step,
                reason="the ratio is identically 1 though samples are stale: "
                "the old log-probabilities are not those of the behaviour policy",
            )

    async def _save(self) -> None:
        """Begins a checkpoint of the last committed step, unless it has one."""
        values = {
            "data_position": self._data.to_json(),
            "filter": self._filter_state,
            "seed": self._context.seed,
        }
        await self._checkpointing.begin(self._committed, values)

    def _run(self, call: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Compute runs in one thread, so the loop stays free and calls never overlap."""
        return asyncio.get_running_loop().run_in_executor(self._compute, call, *arguments)

    async def close(self) -> None:
        """Ends the step that is being finished, and keeps what was committed."""
        try:
            self._checkpointing.leave()
            if self._finishing is not None:
                await asyncio.wait({self._finishing})
                if not self._finishing.cancelled() and (error := self._finishing.exception()) is not None:
                    self._context.report.event("step_failed", reason=describe(error))
            if (why := await self._publishing.failure()) is not None:
                self._context.report.event("not_published", version=self._committed, reason=why)
            if (why := await self._checkpointing.failure()) is not None:
                self._not_saved(why)
            elif self._checkpointing.lacks(self._committed) and not self._torn:
                await self._save_before_the_end()
            await self._checkpointing.copied()
        finally:
            await self._run(self._close_backend)
            await asyncio.to_thread(self._compute.shutdown)

    def _close_backend(self) -> None:
        """After the calls that are on their way, one of which may open it."""
        if self._opened is not None:
            self._opened.close()

    async def _save_before_the_end(self) -> None:
        """What it cannot save, for it lost a rank or has no room, is said: the run goes on from an earlier
        checkpoint."""
        try:
            await self._run(self._backend.discard)
            await self._save()
            await self._checkpointing.out()
        except (RanksFailed, NoRoom) as error:
            self._not_saved(describe(error))

    def _not_saved(self, why: str) -> None:
        self._context.report.event("not_saved", step=self._committed, reason=why)
