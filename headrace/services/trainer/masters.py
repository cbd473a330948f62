"""What the optimizer steps: the trained parameters, those in bfloat16 as float32 copies of their own.

A step of a usual learning rate is smaller than the distance between neighbouring bfloat16 numbers and would
be lost; so gradients are summed and weights are moved in float32, and the model gets them rounded.
Invariant: after `publish` each parameter of the model is its copy, rounded.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch.nn import Parameter

from headrace.services.trainer.sharded import put

PREFIX = "master/"


class Masters:
    """`collect* -> (optimizer steps `stepped`) -> publish`; with `follow`, `collect` happens by itself."""

    def __init__(self, trained: Mapping[str, Parameter]) -> None:
        """`trained`: parameters of the model and beside it, by name."""
        self.stepped = {name: _precise(parameter) for name, parameter in trained.items()}
        """The same where a parameter is precise enough, else its copy."""
        self._copied = {
            name: (parameter, self.stepped[name])
            for name, parameter in trained.items()
            if self.stepped[name] is not parameter
        }

    def collect(self) -> None:
        """Takes the model's gradients over into the copies; after every backward pass."""
        for parameter, master in self._copied.values():
            _collect(parameter, master)

    def follow(self) -> None:
        """Collects each gradient as soon as a backward pass has it, so that none are summed in bfloat16."""
        for parameter, master in self._copied.values():
            parameter.register_post_accumulate_grad_hook(partial(_collect, master=master))

    @torch.no_grad()
    def publish(self) -> None:
        """Rounds the copies into the model."""
        for parameter, master in self._copied.values():
            parameter.copy_(master)

    def state(self) -> dict[str, torch.Tensor]:
        """`master/<parameter>`, of each copy; views."""
        return {f"{PREFIX}{name}": master.detach() for name, (_, master) in self._copied.items()}

    def load_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """Raises ValueError for a state without them."""
        for name, (_, master) in self._copied.items():
            if f"{PREFIX}{name}" not in state:
                raise ValueError(
                    f"the checkpoint has no float32 copy of {name}: it was saved under another dtype; go "
                    "on with that one"
                )
            put(master, state[f"{PREFIX}{name}"])


def _collect(parameter: torch.Tensor, master: Parameter) -> None:
    if parameter.grad is None:
        return
    gradient = parameter.grad.to(master.dtype)
    master.grad = gradient if master.grad is None else master.grad.add_(gradient)
    parameter.grad = None


def _precise(parameter: Parameter) -> Parameter:
    return Parameter(parameter.detach().float()) if parameter.dtype == torch.bfloat16 else parameter
