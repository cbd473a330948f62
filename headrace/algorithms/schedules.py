"""The learning rate at an optimizer step; a pure function of the step, so that a plan can print it.

Steps are optimizer steps from 0 to `total_steps - 1`. Every one of them has a rate above 0: the warm-up
starts at peak / warmup_steps, the decay would reach 0 at `total_steps`, the first step that is not taken.
"""

import math
from collections.abc import Callable


def constant(progress: float) -> float:
    return 1.0


def linear(progress: float) -> float:
    return 1.0 - progress


def cosine(progress: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * progress))


DECAYS: dict[str, Callable[[float], float]] = {"constant": constant, "linear": linear, "cosine": cosine}
"""Factor of the peak rate by the progress from 0, after the warm-up, to 1, after the last step."""


def learning_rate(
    step: int,
    *,
    peak: float,
    schedule: str = "constant",
    warmup_steps: int = 0,
    total_steps: int | None = None,
) -> float:
    """Learning rate of `step`, counted from 0.

    Raises ValueError where the schedule is unknown, where it needs a total that is not known (None or < 1),
    where the warm-up leaves no step to decay over, and where the step is outside of the run.
    """
    if schedule not in DECAYS:
        raise ValueError(f"unknown schedule {schedule!r}; choose one of {', '.join(sorted(DECAYS))}")
    if step < 0:
        raise ValueError(f"step is {step}; optimizer steps count from 0")
    if schedule != "constant":
        total_steps = _checked_total(schedule, step, warmup_steps, total_steps)
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    if schedule == "constant" or total_steps is None:
        return peak
    return peak * DECAYS[schedule]((step - warmup_steps) / (total_steps - warmup_steps))


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
