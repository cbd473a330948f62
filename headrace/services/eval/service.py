"""The eval: exact versions of a policy's weights, each scored on the same prompts, beside the training.

    published versions ─► those due, kept ─► load ─► answer ─► score ─► metrics, under the version's number

It leases nothing and answers in a process of its own, so that the training neither waits for it nor sees it.
Invariant: figures are of the weights whose version and checksum they are said with, and of no others: new
ones are loaded between evaluations only.
"""

import asyncio
import shutil
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headrace.services.base import Context
from headrace.services.clock import ActivityClock
from headrace.services.errors import ReplicaFailed
from headrace.services.eval.due import Due
from headrace.services.eval.exam import Exam, exam
from headrace.services.eval.figures import Outcome, figures
from headrace.services.eval.following import Following
from headrace.services.models import load_tokenizer
from headrace.services.options import EvalOptions, RolloutOptions
from headrace.services.reward.scorers import Scorer, scorer
from headrace.services.rollout.engines import NOT_SERVED, OWN, Completion, Engine, build
from headrace.services.texts import decode
from headrace.services.verdicts.errors import RewardError
from headrace.services.weights import WeightStore

TRIES = 2
"""Times that an answer is given to the verifier before its scoring counts as failed."""

T = TypeVar("T")


class Eval:
    """A `Loop`."""

    def __init__(self, *, load_tokenizer: Callable[[str], Any] = load_tokenizer) -> None:
        self._load_tokenizer = load_tokenizer
        self._clock = ActivityClock()
        self._engine: Engine | None = None
        self._scorer: Scorer | None = None
        self._following: asyncio.Task[None] | None = None

    async def setup(self, context: Context) -> None:
        """Raises DatasetError where the prompts cannot be had, VerifierUnusable."""
        options: EvalOptions = context.options
        self._context = context
        self._due = Due(every=options.every, last=context.flow.steps)
        if context.policy_is_trained:
            published = WeightStore(context.shared_dir / "weights")
            own = context.shared_dir / "evals" / context.node
            await asyncio.to_thread(shutil.rmtree, own, ignore_errors=True)
            self._versions = Following(context, self._due, published, WeightStore(own))
            self._following = asyncio.create_task(self._versions.run(), name="versions that are due")
        self._tokenizer = await asyncio.to_thread(self._load_tokenizer, context.policy.model)
        self._exam: Exam = await asyncio.to_thread(
            exam, options, self._tokenizer, run_seed=context.seed, node=context.node
        )
        self._scorer = scorer(options.verifier, log_file=context.log_file, run_dir=context.run_dir)
        await self._scorer.start()
        self._engine = await build(
            _generating(options),
            context.policy,
            seed=context.weights_seed,
            version=NOT_SERVED if context.policy_is_trained else OWN,
        )
        context.pulse.counts = self._progress

    async def run(self) -> None:
        """Returns when the last version is scored; of a policy that nobody trains, its own weights."""
        if self._following is None:
            await self._evaluate(checksum="")
            return
        async with asyncio.TaskGroup() as both:
            both.create_task(_ended(self._following))
            both.create_task(self._score_all())

    async def _score_all(self) -> None:
        engine = _ready(self._engine)
        while engine.version < self._due.last:
            taken = await self._versions.next()
            with self._clock.during("busy"):
                with self._context.pulse.working(f"load version {taken.version}"):
                    await engine.load(taken.version, await self._versions.read(taken))
                self._versions.drop(taken)
                await self._evaluate(checksum=taken.checksum)

    async def _evaluate(self, *, checksum: str) -> None:
        """Scores the loaded weights and says what came of it."""
        engine, started = _ready(self._engine), time.monotonic()
        working = self._context.pulse.working(f"score version {engine.version}")
        with self._clock.during("busy"), working:
            completions = [
                each async for finished in engine.generate(self._exam.requests) for each in finished
            ]
            completions.sort(key=lambda completion: completion.uid)
            await self._context.faults.after_work(time.monotonic() - started)
            self._context.pulse.beat()
            outcomes = await self._scored(completions)
        found = {**figures(completions, outcomes), "seconds": time.monotonic() - started}
        report, node, version = self._context.report, self._context.node, engine.version
        report.metrics({f"eval/{node}/{name}": value for name, value in found.items()}, step=version)
        report.metrics({**self._clock.figures()})
        report.event("evaluated", version=version, checksum=checksum, policy=self._context.policy_name)

    def _progress(self) -> float:
        return _ready(self._engine).stats()["generated_tokens"]

    async def _scored(self, completions: Sequence[Completion]) -> list[Outcome]:
        """An outcome for each answer; raises ReplicaFailed where the scoring of all of them failed."""
        texts = decode(self._tokenizer, [each.token_ids for each in completions])
        asked = zip(texts, self._exam.examples, strict=True)
        outcomes = [await self._outcome(text, example) for text, example in asked]
        failed = [outcome for outcome in outcomes if isinstance(outcome, RewardError)]
        if failed:
            self._context.report.event("scoring_failed", answers=len(failed), reason=str(failed[-1]))
        if len(failed) == len(outcomes):
            raise ReplicaFailed(
                f"none of the {len(outcomes)} answers could be scored; the last: {failed[-1]}"
            ) from failed[-1]
        return outcomes

    async def _outcome(self, text: str, example: dict[str, Any]) -> Outcome:
        """The verifier's verdict, or the error that its last try raised."""
        failed: RewardError | None = None
        for _ in range(TRIES):
            try:
                verdict = await _ready(self._scorer).score(text, example)
                self._context.pulse.beat()
                return verdict
            except RewardError as error:
                failed = error
        return _ready(failed)

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self._engine is not None:
            await self._engine.close()
        if self._scorer is not None:
            await self._scorer.close()


def _ready(part: T | None) -> T:
    assert part is not None, "setup comes first"
    return part


async def _ended(task: asyncio.Task[None]) -> None:
    await task


def _generating(options: EvalOptions) -> RolloutOptions:
    """How answers are made: a rollout's options that an eval has too."""
    return RolloutOptions(
        engine=options.engine,
        max_new_tokens=options.max_new_tokens,
        temperature=options.temperature,
        max_concurrent=options.max_concurrent,
        vllm=options.vllm,
        fake=options.fake,
    )
