"""A batch through an update schedule: optimizer steps counted over the run, and what they say together."""

from collections.abc import Iterator, Sequence
from typing import Literal

from headrace.algorithms.base import Algorithm
from headrace.algorithms.diagnostics import summary
from headrace.algorithms.updates import UpdateSchedule
from headrace.services.trainer.backend import Backend, StepResult
from headrace.services.trainer.samples import Samples
from headrace.services.trainer.tally import Tally


def optimizer_steps(
    backend: Backend,
    schedule: UpdateSchedule,
    samples: Samples | None,
    algorithm: Algorithm,
    *,
    step: int,
    seed: int,
) -> Iterator[StepResult]:
    """Takes the optimizer steps of training step `step`, one for each result.

    `samples`: the whole batch, with its proximal log-probabilities; None: it was accumulated as it came, for
    a schedule that streams.
    """
    first = step * schedule.updates_per_batch
    if samples is None:
        yield backend.step(first)
        return
    if algorithm.prepares and algorithm.needs_full_batch:
        samples = backend.prepared(samples, algorithm)
    for number, index in enumerate(schedule.plan(step, samples.groups, seed=seed)):
        if len(index):
            backend.accumulate(samples.select(index), algorithm)
        yield backend.step(first + number)


def metrics(results: Sequence[StepResult], *, of: Literal["actor", "critic"] = "actor") -> dict[str, float]:
    """Of one training step: token diagnostics over all of its optimizer steps, means over those not skipped.

    `of`: whose update it is; `<of>/lr` is that of the last optimizer step. No results: the policy is frozen.
    """
    if not results:
        return {f"{of}/frozen": 1.0}
    tally = Tally()
    for result in results:
        tally.merge(Tally(sums=dict(result.sums), maxima=dict(result.maxima)))
    taken = [result for result in results if not result.skipped]
    return {
        **summary(tally.sums, tally.maxima),
        f"{of}/loss": _mean([result.loss for result in taken]),
        f"{of}/grad_norm": _mean([result.grad_norm for result in taken]),
        f"{of}/lr": results[-1].lr,
        f"{of}/updates": float(len(taken)),
        f"{of}/frozen": 0.0,
        f"{of}/skipped": float(len(results) - len(taken)),
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
