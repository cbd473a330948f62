"""The learning rate of each optimizer step: a function of the step, or an answer to the loss.

Invariant: a rate whose state was saved and loaded again gives the rates that the saved one would have given.
"""

from collections.abc import Mapping
from typing import Protocol

import torch

from headrace.algorithms.updates import GreedyRate
from headrace.services.options import OptimizerOptions
from headrace.services.trainer.schedule import scheduled

PREFIX = "rate/"


class Rate(Protocol):
    def at(self, step: int) -> float:
        """Of an optimizer step, counted from 0."""
        ...

    def observe(self, loss: float) -> None:
        """The loss of the step just taken."""
        ...

    def state(self) -> dict[str, torch.Tensor]:
        """`rate/<figure>` to float64 tensor; empty where the step alone decides."""
        ...

    def load_state(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Names outside of `rate/` are ignored. Raises ValueError where the state is not there."""
        ...


class ScheduledRate:
    """A schedule of `algorithms.schedules`."""

    def __init__(self, options: OptimizerOptions, total_steps: int | None) -> None:
        """Raises ValueError where the schedule needs a total that is not known."""
        self._options = options
        self._total_steps = total_steps
        self.at(0)

    def at(self, step: int) -> float:
        return scheduled(self._options, step, self._total_steps)

    def observe(self, loss: float) -> None:
        """The loss has no part in it."""

    def state(self) -> dict[str, torch.Tensor]:
        return {}

    def load_state(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """There is none."""


class GreedyLoss:
    """GreedyLR on the loss of each optimizer step."""

    def __init__(self, options: OptimizerOptions) -> None:
        greedy = options.greedy
        self._rate = GreedyRate(
            initial=options.lr,
            factor=greedy.factor,
            patience=greedy.patience,
            threshold=greedy.threshold,
            window=greedy.window,
            lowest=greedy.lowest,
            highest=greedy.highest,
        )

    def at(self, step: int) -> float:
        return self._rate.rate

    def observe(self, loss: float) -> None:
        self._rate.observe(loss)

    def state(self) -> dict[str, torch.Tensor]:
        saved = self._rate.state()
        previous = [] if saved["previous"] is None else [saved["previous"]]
        figures = {"rate": [saved["rate"]], "losses": saved["losses"], "previous": previous}
        figures["run"] = [float(saved["run"])]
        return {
            f"{PREFIX}{name}": torch.tensor(value, dtype=torch.float64) for name, value in figures.items()
        }

    def load_state(self, tensors: Mapping[str, torch.Tensor]) -> None:
        names = ("rate", "losses", "previous", "run")
        if absent := [name for name in names if f"{PREFIX}{name}" not in tensors]:
            raise ValueError(
                f"the checkpoint has no {PREFIX}{absent[0]}: it was saved with another schedule than greedy; "
                "go on with that one"
            )
        rate, losses, previous, run = (tensors[f"{PREFIX}{name}"].tolist() for name in names)
        self._rate.load_state(
            {
                "rate": rate[0],
                "losses": losses,
                "previous": previous[0] if previous else None,
                "run": int(run[0]),
            }
        )


def make_rate(options: OptimizerOptions, total_steps: int | None) -> Rate:
    """`total_steps` of the run's optimizer; None: unknown, which only an endless schedule allows."""
    return GreedyLoss(options) if options.schedule == "greedy" else ScheduledRate(options, total_steps)
