"""A linear value head on the policy's last hidden state; part of the trainer, never of published weights.

It starts at 0, so that the first credit is the return itself. Its gradient goes on into the policy's trunk.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from headrace.algorithms.base import PolicyOutput
from headrace.services.scoring.model import PackedModel
from headrace.services.scoring.packing import Pack

PREFIX = "value_head/"


class ValueHead:
    """Gives `outputs` of a packed model with `values` among them."""

    def __init__(self, packed: PackedModel) -> None:
        """Raises ValueError for a model without an output layer to read the hidden state before."""
        output = packed.model.get_output_embeddings()
        if output is None:
            raise ValueError(
                f"{type(packed.model).__name__} names no output layer, before which values would be read; "
                "set the algorithm's critic: node"
            )
        self.model = packed.model
        self._packed = packed
        self._output: torch.nn.Module = output
        weight = next(output.parameters())
        self._linear = torch.nn.Linear(weight.shape[1], 1).to(dtype=weight.dtype, device=weight.device)
        torch.nn.init.zeros_(self._linear.weight)
        torch.nn.init.zeros_(self._linear.bias)
        self.own = {f"{PREFIX}{name}": parameter for name, parameter in self._linear.named_parameters()}

    def logprobs(self, pack: Pack) -> torch.Tensor:
        return self._packed.logprobs(pack)

    def outputs(self, pack: Pack, names: Sequence[str]) -> PolicyOutput:
        """As `PackedModel.outputs`; `values` [T], at least float32: of the state that predicts each token."""
        if "values" not in names:
            return self._packed.outputs(pack, names)
        with self._hidden() as seen:
            policy = self._packed.outputs(pack, [name for name in names if name != "values"])
        (hidden_T,) = seen
        values_T = self._linear(hidden_T)[:, 0]
        return replace(policy, values=values_T.to(torch.promote_types(values_T.dtype, torch.float32)))

    @contextmanager
    def _hidden(self) -> Iterator[list[torch.Tensor]]:
        """What enters the output layer within, [T, H] for each pass."""
        seen: list[torch.Tensor] = []

        def see(_: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
            seen.append(inputs[0][0])

        hook = self._output.register_forward_pre_hook(see)
        try:
            yield seen
        finally:
            hook.remove()
