"""What every side of the loop benchmark does: the two works and the figures taken from a run of them."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import countdown

WARMUP_STEPS = 5
"""Steps left out of the figures at the start of each run, as the peer's script does."""
LENGTH_TOLERANCE = 0.1
"""Share by which the mean answer may differ from the distribution's, beyond the noise of the sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Model, task, batch and optimizer setting, the same for all sides."""

    name: str
    prompts: int
    samples: int
    longest: int
    """Tokens of the longest answer, the end token included."""
    lr: float
    steps: int
    ratio_prefix: str


LETTERS = 4
COPY = Work(name="copy", prompts=32, samples=8, longest=LETTERS + 1, lr=1e-3, steps=100, ratio_prefix="")
LOGNORMAL = Work(
    name="lognormal", prompts=16, samples=8, longest=256, lr=1e-7, steps=15, ratio_prefix="lognormal_"
)
WORKS = {work.name: work for work in (COPY, LOGNORMAL)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One run of one side. Seconds are between the ends of consecutive steps, warm-up left out."""

    seconds_per_step: float
    """Median."""
    mean_seconds_per_step: float | None
    """None: the side's script gives the median alone."""
    tokens_per_s: float
    exact_last5: float
    """Mean of the last five steps; of the reward where the work has no exact rate."""
    details: dict[str, Any]


def from_marks(marks: Sequence[float], tokens: Sequence[float], exact: Sequence[float]) -> Figures:
    """Figures of a run with one entry per step: its end in seconds, its answers' tokens, its exact rate."""
    if len(marks) < WARMUP_STEPS + 2:
        raise ValueError(
            f"{len(marks)} steps were run; a figure needs at least {WARMUP_STEPS + 2}: pass --steps"
        )
    gaps = [
        after - before for before, after in zip(marks[WARMUP_STEPS:], marks[WARMUP_STEPS + 1 :], strict=False)
    ]
    median = statistics.median(gaps)
    return Figures(
        seconds_per_step=median,
        mean_seconds_per_step=statistics.fmean(gaps),
        tokens_per_s=statistics.fmean(tokens[WARMUP_STEPS + 1 :]) / median,
        exact_last5=statistics.fmean(exact[-5:]),
        details={"answer_tokens": sum(tokens), "steps": len(marks), "gaps_s": gaps},
    )


def require_same_lengths(work: Work, side: str, figures: Figures) -> None:
    """Raises ValueError where a side's answers do not follow the log-normal work's length distribution."""
    if work.name != LOGNORMAL.name:
        return
    answers = figures.details["steps"] * work.prompts * work.samples
    mean = figures.details["answer_tokens"] / answers
    expected, deviation = countdown.moments()
    noise = 3 * deviation / math.sqrt(answers)
    if abs(mean - expected) > LENGTH_TOLERANCE * expected + noise:
        raise ValueError(
            f"{side}: answers have {mean:.1f} tokens on average over {answers} answers, the work asks for "
            f"{expected:.1f} +- 10 %: this side did not do the same work, so no ratio is given"
        )
