"""Replaces a model's weights, after every name, shape and type was checked.

Invariant: nothing changes unless all of it fits, and all bytes of a stored version are those published: a
refused load leaves the old weights whole.
"""

from collections.abc import Mapping

import torch

from headrace.services.models.lora import published
from headrace.services.weights.layout import Form
from headrace.services.weights.tensors import TORCH_NAMES, form, is_aligned, lies_here
from headrace.services.weights.version import Version, forms_of


def check_weights(model: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Raises ValueError naming what is missing, unexpected or misshapen; of tied names one is enough."""
    held, forms = _held(model), forms_of(weights)
    given = {id(held[name]) for name in weights if name in held}
    missing = [name for name, tensor in held.items() if id(tensor) not in given]
    unexpected = [name for name in weights if name not in held]
    unfit = [
        f"{name}: {_said(forms[name])} where the model has {_said(form(tensor))}"
        for name, tensor in held.items()
        if name in forms and forms[name] != form(tensor)
    ]
    faults = [
        f"{label}: {_listed(found)}"
        for label, found in (("missing", missing), ("unexpected", unexpected), ("unfit", unfit))
        if found
    ]
    if faults:
        raise ValueError(
            f"weights do not fit {type(model).__name__} ({'; '.join(faults)}); "
            "publish the state dict of the same model in the same dtype"
        )


@torch.no_grad()
def replace_weights(model: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Has `model` hold checked `weights`; tied tensors follow each other.

    A stored version is verified first, and is read where it lies from then on: its file is locked for as long
    as the model holds tensors of it. What cannot be read there is copied: on a GPU in place, on the CPU to
    new memory, since what the model has may be a version's. Raises WeightsError where bytes are not those
    published; the model is as it was then.
    """
    held = _held(model)
    is_stored = isinstance(weights, Version)
    for name, tensor in weights.items():
        target = held[name]
        if target.device.type != "cpu":
            target.copy_(tensor)
        elif is_stored and lies_here(target) and is_aligned(tensor):
            target.data = tensor
        else:
            target.data = torch.empty_like(target).copy_(tensor)


def _held(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Every parameter and persistent buffer by each of its names, of a model with adapters those alone; tied
    names hold one tensor."""
    return published(model.state_dict(keep_vars=True))


def _said(form: Form) -> str:
    return f"{TORCH_NAMES[form.dtype]} {list(form.shape)}"


def _listed(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
