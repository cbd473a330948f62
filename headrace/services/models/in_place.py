"""Replaces a model's weights in place, after every name, shape and type was checked.

Nothing is written unless all of it fits: a refused load leaves the old weights whole.
"""

from collections.abc import Mapping

import torch

from headrace.services.models.lora import published
from headrace.services.weights.copies import copy_all
from headrace.services.weights.layout import Form
from headrace.services.weights.tensors import TORCH_NAMES, form, lies_here, raw
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
def copy_weights(model: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Copies checked `weights` into `model`, in place; tied tensors follow each other.

    On a CPU as bytes: torch's own threads, woken for each tensor, cost milliseconds. A stored version is
    verified as it is copied. Raises WeightsError where its bytes are not those published; the model may not
    be used then.
    """
    held = _held(model)
    here = {name: raw(held[name]) for name in weights if lies_here(held[name])}
    if isinstance(weights, Version):
        weights.copy_to(here)
    else:
        here = {name: target for name, target in here.items() if lies_here(weights[name])}
        copy_all((target, raw(weights[name])) for name, target in here.items())
    for name in weights.keys() - here.keys():
        held[name].copy_(weights[name])


def _held(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Every parameter and persistent buffer by each of its names, of a model with adapters those alone; tied
    names hold one tensor."""
    return published(model.state_dict(keep_vars=True))


def _said(form: Form) -> str:
    return f"{TORCH_NAMES[form.dtype]} {list(form.shape)}"


def _listed(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
