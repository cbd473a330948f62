"""Low-rank adapters on a model's linear layers, by peft; the model stays the class that it was.

Invariant: a model whose adapters were just attached computes what it computed before: their second factor is
0. The first factor follows from the seed alone. Imports nothing heavy: `missing` is for `check`.
"""

import importlib.util
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from headrace.services.models import ONE_AT_A_TIME
from headrace.services.options import LoraOptions

if TYPE_CHECKING:
    import torch
    from peft import LoraConfig
    from transformers import PreTrainedModel

ADAPTER = "default"
"""What peft calls the one adapter of a model, within the names of its tensors."""
FIRST, SECOND, BASE = f".lora_A.{ADAPTER}.", f".lora_B.{ADAPTER}.", ".base_layer."
FOLDER = "adapter"
"""Beside a saved model: the adapters alone, as peft reads them."""


def missing() -> str | None:
    """What has to be installed before adapters are attached, None if nothing."""
    if importlib.util.find_spec("peft") is not None:
        return None
    return "adapters are made by the package peft, which is not installed; pip install 'headrace[lora]'"


def attach(model: "PreTrainedModel", options: LoraOptions, *, seed: int) -> None:
    """Adds adapters in place, of the weights' type; all else needs no gradient from then on.

    Raises ValueError for a name that no linear layer has, ModuleNotFoundError with the way out without peft.
    """
    if (problem := missing()) is not None:
        raise ModuleNotFoundError(problem)
    import torch
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(
        r=options.rank,
        lora_alpha=options.alpha,  # pyright: ignore[reportArgumentType]
        target_modules=_targets(model, options.target_modules),
        task_type="CAUSAL_LM",
    )
    with ONE_AT_A_TIME, torch.random.fork_rng(devices=[]):
        inject_adapter_in_model(config, model, adapter_name=ADAPTER)
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if FIRST in name:
            bound = 1 / math.sqrt(parameter.shape[1])
            drawn = torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator)
            parameter.data.copy_(drawn)
        elif SECOND in name:
            parameter.data.zero_()


def is_adapter(name: str) -> bool:
    """Whether a tensor of that name is part of an adapter."""
    return FIRST in name or SECOND in name


def published(tensors: "dict[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
    """Those of a model's tensors that go from trainer to readers: the adapters of a model that has some, else
    all."""
    return {name: tensor for name, tensor in tensors.items() if is_adapter(name)} or tensors


def merged(model: "PreTrainedModel", tensors: "Mapping[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
    """The tensors of `model`, which has adapters, as of one without: each adapter added to its layer, under
    the names that the layers had before."""
    config = _config(model)
    base = {name.replace(BASE, "."): tensor for name, tensor in tensors.items() if not is_adapter(name)}
    return added(base, tensors, scale=config.lora_alpha / config.r)


def added(
    base: "Mapping[str, torch.Tensor]", adapters: "Mapping[str, torch.Tensor]", *, scale: float
) -> "dict[str, torch.Tensor]":
    """`base`, the tensors of a model without adapters, with `scale` times each adapter added to its layer, in
    float64 and rounded once; what is no adapter among `adapters` is passed over."""
    whole = dict(base)
    for name, second in adapters.items():
        if SECOND in name:
            first, layer = adapters[name.replace(SECOND, FIRST)], name.replace(SECOND, ".")
            change = (second.double() @ first.double()) * scale
            whole[layer] = (base[layer].double() + change).to(base[layer].dtype)
    return whole


def save_adapters(model: "PreTrainedModel", tensors: "Mapping[str, torch.Tensor]", directory: Path) -> None:
    """Writes `adapter/` into a saved model's folder; `PeftModel.from_pretrained` opens it over the base."""
    from safetensors.torch import save_file

    folder = directory / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    named = {
        f"base_model.model.{name.replace(f'.{ADAPTER}.', '.')}": tensor.contiguous()
        for name, tensor in tensors.items()
        if is_adapter(name)
    }
    save_file(named, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    _config(model).save_pretrained(str(folder))


def _config(model: "PreTrainedModel") -> "LoraConfig":
    return cast("Mapping[str, LoraConfig]", model.peft_config)[ADAPTER]


def _targets(model: "PreTrainedModel", names: tuple[str, ...]) -> list[str]:
    """`names`, or those of all linear layers but the output."""
    import torch

    output = model.get_output_embeddings()
    linear = {
        name.rpartition(".")[2]
        for name, part in model.named_modules()
        if isinstance(part, torch.nn.Linear) and part is not output
    }
    if odd := sorted(set(names) - linear):
        raise ValueError(
            f"lora.target_modules names {odd[0]!r}, which is no linear layer of {type(model).__name__} "
            f"before its output; it has {', '.join(sorted(linear))}: name some of these, or none for all"
        )
    if not linear:
        raise ValueError(
            f"{type(model).__name__} has no linear layer before its output for an adapter; remove lora, or "
            "choose another model"
        )
    return sorted(names or linear)
