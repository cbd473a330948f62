"""Micro-batches through the stages of a model, by megatron's own schedules.

Only what predicts an answer token passes through the output layer. What the last stage makes of a micro-batch
stays there; the other stages get nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import torch

from headrace.algorithms.base import LossSum, PolicyOutput
from headrace.services.devices import moved
from headrace.services.trainer.determinism import deterministic
from headrace.services.trainer.megatron.batches import MicroBatch
from headrace.services.trainer.megatron.geometry import Geometry
from headrace.services.trainer.megatron.grid import Grid
from headrace.services.trainer.megatron.library import get_forward_backward_func, quiet
from headrace.services.trainer.megatron.logprobs import token_outputs

T = TypeVar("T")

Loss = Callable[[PolicyOutput, MicroBatch], LossSum]


class Pipeline:
    """This rank's stage of a model, and its part in each pass."""

    def __init__(
        self,
        model: Any,
        geometry: Geometry,
        grid: Grid,
        *,
        temperature: float,
        device: torch.device,
    ) -> None:
        """`temperature` is that of the sampling. Raises ValueError where it is not above 0."""
        if not temperature > 0:
            raise ValueError(f"temperature is {temperature}; log-probabilities need one above 0")
        self._model = model
        self._geometry = geometry
        self._grid = grid
        self._temperature = temperature
        self._device = device

    def backward(self, batches: Sequence[MicroBatch], loss: Loss, names: Sequence[str]) -> list[LossSum]:
        """Adds the gradient of each loss to the parameters; the losses, at the last stage alone.

        `names` are what `loss` differentiates of `algorithms.base.OUTPUTS`.
        """

        def reckon(policy: PolicyOutput, batch: MicroBatch) -> tuple[torch.Tensor, LossSum]:
            summed = loss(policy, batch)
            return summed.total, summed

        return self._pass(batches, reckon, names, forward_only=False)

    def score(self, batches: Sequence[MicroBatch], names: Sequence[str]) -> list[PolicyOutput]:
        """Without gradient; what the policy says of each micro-batch, at the last stage alone."""

        def keep(policy: PolicyOutput, batch: MicroBatch) -> tuple[torch.Tensor, PolicyOutput]:
            return policy.logprobs.sum(), policy

        with torch.no_grad():
            return self._pass(batches, keep, names, forward_only=True)

    def _pass(
        self,
        batches: Sequence[MicroBatch],
        finish: Callable[[PolicyOutput, MicroBatch], tuple[torch.Tensor, T]],
        names: Sequence[str],
        *,
        forward_only: bool,
    ) -> list[T]:
        if not batches:
            return []

        def forward_step(remaining: Iterator[MicroBatch], model: Any) -> tuple[torch.Tensor, Any]:
            batch = next(remaining)
            return self._forward(batch, model), partial(last, batch)

        def last(batch: MicroBatch, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, T]:
            total, kept = finish(self._outputs(batch, logits[0], names), batch)
            return total, torch.zeros((), dtype=torch.int), kept

        with quiet(), deterministic():
            return get_forward_backward_func()(
                forward_step_func=forward_step,
                data_iterator=iter(batches),
                model=self._model,
                num_microbatches=len(batches),
                seq_length=batches[0].input_ids.shape[1],
                micro_batch_size=len(batches[0].input_ids),
                forward_only=forward_only,
            )

    def _forward(self, batch: MicroBatch, model: Any) -> torch.Tensor:
        """Logits [1, T, V / ranks] at the last stage, else hidden states [S, R, H]."""
        rows, width = batch.input_ids.shape
        later = torch.ones(1, 1, width, width, dtype=torch.bool, device=self._device).triu(1)
        with self._keeping(batch):
            return model(
                input_ids=moved(batch.input_ids, self._device),
                position_ids=torch.arange(width, device=self._device).expand(rows, -1),
                attention_mask=later,
            )

    def _outputs(self, batch: MicroBatch, logits: torch.Tensor, names: Sequence[str]) -> PolicyOutput:
        return token_outputs(
            logits,
            moved(batch.targets, self._device),
            first=self._grid.tp_rank * logits.shape[1],
            vocabulary=self._geometry.vocabulary,
            group=self._grid.tensor_group(),
            temperature=self._temperature,
            names=names,
        )

    @contextmanager
    def _keeping(self, batch: MicroBatch) -> Iterator[None]:
        """Within it the output layer gets the hidden states that predict an answer token, [T, 1, H]."""
        if not self._model.post_process:
            yield
            return
        kept = moved(batch.scored_from, self._device)

        def select(_: torch.nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
            return (arguments[0].flatten(0, 1)[kept][:, None], *arguments[1:])

        hook = self._model.output_layer.register_forward_pre_hook(select)
        try:
            yield
        finally:
            hook.remove()
