"""The moments of a torch optimizer as flat named tensors and back, by parameter name instead of position."""

from collections.abc import Mapping

import torch

from headrace.services.trainer.sharded import laid_out

PREFIX = "optimizer/"


def dump_optimizer(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.nn.Parameter]
) -> dict[str, torch.Tensor]:
    """`optimizer/<parameter>/<moment>` to tensor; views, valid until the next step."""
    return {
        f"{PREFIX}{name}/{moment}": tensor.detach()
        for name, parameter in parameters.items()
        for moment, tensor in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer,
    parameters: Mapping[str, torch.nn.Parameter],
    tensors: Mapping[str, torch.Tensor],
) -> None:
    """Replaces all moments; tensors outside of `optimizer/` are ignored.

    Raises ValueError for a parameter that is not there.
    """
    optimizer.state.clear()
    for key, tensor in tensors.items():
        if not key.startswith(PREFIX):
            continue
        name, _, moment = key.removeprefix(PREFIX).rpartition("/")
        if name not in parameters:
            raise ValueError(f"the optimizer's state names {name}, which the model does not have")
        parameter = parameters[name]
        optimizer.state[parameter][moment] = laid_out(parameter, tensor).to(parameter.device, copy=True)
