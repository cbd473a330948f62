"""The learning rate at an optimizer step; a pure function of the step, so that a plan can print it.

Steps are optimizer steps from 0 to `total_steps - 1`. Every one of them has a rate above 0: the warm-up
starts at peak / warmup_steps, the decay would reach its floor at `total_steps`, the first step not taken.
"""

import math
from collections.abc import Callable

WSD_DECAY = 0.2
"""Share of the steps after the warm-up over which warm-up-stable-decay decays."""


def constant(progress: float) -> float:
    return 1.0


def linear(progress: float) -> float:
    return 1.0 - progress


def cosine(progress: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def quadratic(progress: float) -> float:
    return (1.0 - progress) ** 2


def stable_decay(progress: float, decay_share: float = WSD_DECAY) -> float:
    """Constant, then 1 - sqrt over the last share: "WSD" with the decay of arxiv.org/abs/2405.18392."""
    late = (progress - (1.0 - decay_share)) / decay_share
    return 1.0 - math.sqrt(late) if late > 0 else 1.0


DECAYS: dict[str, Callable[[float], float]] = {
    "constant": constant,
    "linear": linear,
    "cosine": cosine,
    "quadratic": quadratic,
    "wsd": stable_decay,
}
"""Factor of the peak rate by the progress from 0, after the warm-up, to 1, after the last step."""

ENDLESS = ("constant", "inverse_sqrt")
"""Schedules that need no total of steps."""


def learning_rate(
    step: int,
    *,
    peak: float,
    schedule: str = "constant",
    warmup_steps: int = 0,
    total_steps: int | None = None,
    floor: float = 0.0,
    decay_share: float = WSD_DECAY,
) -> float:
    """Learning rate of `step`, counted from 0; `floor` is the share of the peak that a decay ends at.

    `decay_share` is that of the steps after the warm-up over which `wsd` decays.

    `inverse_sqrt` is peak * sqrt(w / (w + steps since the warm-up)), w = warmup_steps or 1: it has no end.

    Raises ValueError where the schedule is unknown, where it needs a total that is not known (None or < 1),
    where the warm-up leaves no step to decay over, and where the step is outside of the run.
    """
    names = sorted({*DECAYS, *ENDLESS})
    if schedule not in names:
        raise ValueError(f"unknown schedule {schedule!r}; choose one of {', '.join(names)}")
    if step < 0:
        raise ValueError(f"step is {step}; optimizer steps count from 0")
    if not 0.0 <= floor <= 1.0:
        raise ValueError(f"floor is {floor}; it is a share of the peak, between 0 and 1")
    if schedule not in ENDLESS:
        total_steps = _checked_total(schedule, step, warmup_steps, total_steps)
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    factor = _factor(schedule, step - warmup_steps, warmup_steps, total_steps, decay_share)
    return peak * (floor + (1.0 - floor) * factor)


def _factor(
    schedule: str, steps: int, warmup_steps: int, total_steps: int | None, decay_share: float
) -> float:
    if schedule == "inverse_sqrt":
        start = max(warmup_steps, 1)
        return math.sqrt(start / (start + steps))
    if schedule == "constant" or total_steps is None:
        return 1.0
    progress = steps / (total_steps - warmup_steps)
    return stable_decay(progress, decay_share) if schedule == "wsd" else DECAYS[schedule](progress)


def _checked_total(schedule: str, step: int, warmup_steps: int, total_steps: int | None) -> int:
    if total_steps is None or total_steps < 1:
        raise ValueError(
            f"the {schedule} schedule needs the total of optimizer steps, got {total_steps}; "
            "set the run's steps, or take schedule: constant"
        )
    if step >= total_steps:
        raise ValueError(f"step {step} is past the schedule's {total_steps} steps; raise the run's steps")
    if warmup_steps >= total_steps:
        raise ValueError(
            f"warmup_steps is {warmup_steps} of {total_steps} steps: nothing is left to decay over; lower it"
        )
    return total_steps
