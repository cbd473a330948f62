"""The learning rate that an optimizer's options make of a step; light, so that a plan can print it."""

from headrace.algorithms.schedules import learning_rate
from headrace.services.options import OptimizerOptions


def scheduled(options: OptimizerOptions, step: int, total_steps: int | None) -> float:
    """Of an optimizer step, for a schedule that is a function of it.

    `total_steps` of the run's optimizer; None: unknown. Raises ValueError as `learning_rate` does.
    """
    return learning_rate(
        step,
        peak=options.lr,
        schedule=options.schedule,
        warmup_steps=options.warmup_steps,
        total_steps=total_steps,
        floor=options.floor,
        decay_share=options.decay_share,
    )
