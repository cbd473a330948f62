"""What trains a policy: gradients are accumulated over whole groups as they arrive, then one step is taken.

Invariant: the update depends on the samples of the step, never on how they were split over `accumulate`
calls or micro-batches: losses are summed and gradients divided once, by the step's global count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from headrace.algorithms.base import Algorithm
from headrace.services.trainer.samples import Samples
from headrace.services.trainer.tally import Tally

if TYPE_CHECKING:
    from concurrent.futures import Future

    import torch


class NonFiniteGradientError(RuntimeError):
    """The gradient of a step holds NaN or infinity; the weights are those from before the step."""


class NotSaved(RuntimeError):
    """A file of a checkpoint could not be written; nothing else has changed."""


EVERYWHERE = (NonFiniteGradientError, NotSaved)
"""What every rank of a trainer raises at once, after which all of them go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What one optimizer step did."""

    step: int
    grad_norm: float
    """Global norm of the divided gradient, before clipping; 0 where skipped."""
    lr: float
    skipped: bool
    """Whether no token was trained, so that weights and optimizer stayed as they were."""
    count: float
    """What the summed gradient was divided by."""
    loss: float = 0.0
    """The summed loss, divided by it; 0 where skipped."""
    sums: Mapping[str, float] = field(default_factory=dict)
    maxima: Mapping[str, float] = field(default_factory=dict)
    """Diagnostics of the whole step, for `algorithms.diagnostics.summary`."""

    @classmethod
    def of(cls, tally: Tally, *, step: int, lr: float, grad_norm: float) -> Self:
        """Of a step over what `tally` added up."""
        skipped = tally.count == 0
        return cls(
            step=step,
            grad_norm=grad_norm,
            lr=lr,
            skipped=skipped,
            count=tally.count,
            loss=0.0 if skipped else tally.total / tally.count,
            sums=tally.sums,
            maxima=tally.maxima,
        )


class Backend(Protocol):
    def accumulate(self, samples: Samples, algorithm: Algorithm) -> dict[str, float]:
        """Adds the gradient of whole groups to the step; returns the diagnostics' sums of this call.

        For an algorithm that `needs_full_batch`, the step's whole batch in one call.
        """
        ...

    def step(self, step: int) -> StepResult:
        """Divides, clips, updates, clears; `step` counts optimizer steps from 0.

        Raises NonFiniteGradientError naming the step.
        """
        ...

    def discard(self) -> None:
        """Forgets what was accumulated since the last step."""
        ...

    def before(
        self,
        prompt_ids: Sequence[np.ndarray],
        response_ids: Sequence[np.ndarray],
        groups: np.ndarray,
        names: Sequence[str] = (),
    ) -> dict[str, list[np.ndarray]]:
        """`logprobs`, and those of `algorithms.base.OUTPUTS` that are named, of each answer's tokens under
        the current weights, no gradient: [B] of [length] each."""
        ...

    def prepared(self, samples: Samples, algorithm: Algorithm) -> Samples:
        """`samples`, a whole batch, with what the algorithm prepares of it under the current weights.

        For several optimizer steps on one batch; `accumulate` prepares what nobody has prepared.
        """
        ...

    def weights(self) -> "dict[str, torch.Tensor]":
        """Parameters and saved buffers by Hugging Face name, tied ones once, of a model with adapters those
        alone; views, valid until `step`."""
        ...

    def save(self, directory: Path) -> None:
        """Writes what a checkpoint needs to go on bit for bit: config.json and model.safetensors, as
        `from_pretrained` reads them, adapters added to their layers and in `adapter/` besides; and the rest
        as `tensor_files.write_state` does.

        Raises RuntimeError between an `accumulate` and its `step`: gradients are in no checkpoint; NotSaved
        where a file cannot be written.
        """
        ...

    def snapshot(self) -> None:
        """Copies into the host's memory what `save` would write now: `snapshot -> write -> written`, beside
        which steps are taken; `write` again where it failed.

        Raises RuntimeError as `save`.
        """
        ...

    def write(self, directory: Path) -> "Future[None]":
        """Begins to write the snapshot's files, the same as those of `save`, in a thread of its own; done
        when those of this process are written or cannot be. `written` comes before the next call of it."""
        ...

    def written(self) -> None:
        """Waits for the files of every process. Raises NotSaved where one cannot be written."""
        ...

    def load(self, directory: Path) -> None:
        """What `save` wrote, of this back end or another and over however many ranks.

        Raises ValueError where it is of another model."""
        ...

    def close(self) -> None:
        """Ends what it started, whatever state that is in."""
        ...
