"""What every side of the loop benchmark does: the works and the figures taken from a run of them."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import countdown

WARMUP_STEPS = 5
"""Steps left out of the figures at the start of a run, as the peer's script does, where steps are short."""
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
    sides: tuple[str, ...] = ("trl", "bare", "staleness_0", "staleness_1")
    """Run unless others are asked for."""
    rows: int | None = None
    """Rows of one backward pass of a side that pads, whose memory it bounds; None: all of a step."""
    warmup: int = WARMUP_STEPS


LETTERS = 4
COPY = Work(name="copy", prompts=32, samples=8, longest=LETTERS + 1, lr=1e-3, steps=100, ratio_prefix="")
LOGNORMAL = Work(
    name="lognormal", prompts=16, samples=8, longest=256, lr=1e-7, steps=15, ratio_prefix="lognormal_"
)
SMOLLM2 = Work(
    name="smollm2",
    prompts=8,
    samples=8,
    longest=20,
    lr=1.5e-5,
    steps=8,
    ratio_prefix="smollm2_",
    sides=("trl", "staleness_1", "vllm_staleness_1"),
    rows=16,
    warmup=2,
)
WORKS = {work.name: work for work in (COPY, LOGNORMAL, SMOLLM2)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One run of one side. Seconds are between the ends of consecutive steps, warm-up left out."""

    seconds_per_step: float
    """Median."""
    mean_seconds_per_step: float | None
    """None: the side's script gives the median alone."""
    tokens_per_s: float
    """Of answers."""
    tokens_per_step: float
    exact_last5: float
    """Mean of the last five steps; of the reward where the work has no exact rate."""
    details: dict[str, Any]
    cpu_s_per_step: float | None = None
    """Processor time of all processes of the side; None: it does not say when its steps end."""


def from_marks(
    marks: Sequence[float], tokens: Sequence[float], exact: Sequence[float], warmup: int = WARMUP_STEPS
) -> Figures:
    """Figures of a run with one entry per step: its end in seconds, its answers' tokens, its exact rate."""
    if len(marks) < warmup + 2:
        raise ValueError(f"{len(marks)} steps were run; a figure needs at least {warmup + 2}: pass --steps")
    gaps = [after - before for before, after in zip(marks[warmup:], marks[warmup + 1 :], strict=False)]
    median, each = statistics.median(gaps), statistics.fmean(tokens[warmup + 1 :])
    return Figures(
        seconds_per_step=median,
        mean_seconds_per_step=statistics.fmean(gaps),
        tokens_per_s=each / median,
        tokens_per_step=each,
        exact_last5=statistics.fmean(exact[-5:]),
        details={"answer_tokens": sum(tokens), "steps": len(marks), "gaps_s": gaps, "exact": list(exact)},
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
