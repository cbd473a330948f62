from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from headrace.services.models import load
from headrace.services.models.in_place import check_weights, replace_weights
from headrace.services.models.lora import attach, is_adapter, merged, published, save_adapters
from headrace.services.models.policy import load_policy
from headrace.services.options import LoraOptions, PolicyOptions
from tests.services.scoring.models import gpt2, llama

peft: Any = pytest.importorskip("peft")
IDS = torch.tensor([[3, 4, 5, 2]])
POLICY = PolicyOptions(model="tiny-copier", dtype="float64", lora=LoraOptions(rank=4, alpha=8.0))


def drawn(model: torch.nn.Module) -> torch.nn.Module:
    """Adapters that change something."""
    generator = torch.Generator().manual_seed(3)
    for name, parameter in model.named_parameters():
        if is_adapter(name):
            parameter.data.normal_(generator=generator)
    return model


def test_fresh_adapters_change_nothing_and_follow_from_the_seed() -> None:
    plain = load("tiny-copier", dtype="float64", seed=1).model
    torch.manual_seed(9)
    before = torch.random.get_rng_state()
    first, second = load_policy(POLICY, seed=1).model, load_policy(POLICY, seed=1).model
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first(input_ids=IDS).logits, plain(input_ids=IDS).logits)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_adapters_alone_are_trained_and_published() -> None:
    model = load_policy(POLICY, seed=1).model
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained == set(published(dict(model.state_dict())))
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == 2 * 4 * (
        8 * 128 + 3 * (128 + 512)
    )


def test_a_reader_takes_adapters_and_nothing_else() -> None:
    writer, reader = drawn(load_policy(POLICY, seed=1).model), load_policy(POLICY, seed=1).model
    weights = published(writer.state_dict())
    check_weights(reader, weights)
    replace_weights(reader, weights)
    assert torch.equal(reader(input_ids=IDS).logits, writer(input_ids=IDS).logits)
    with pytest.raises(ValueError, match="missing"):
        check_weights(reader, dict(load("tiny-copier", dtype="float64", seed=1).model.state_dict()))


def test_layers_with_their_adapters_added_are_a_model_without_any(tmp_path: Path) -> None:
    model = load_policy(POLICY, seed=1).model
    drawn(model)
    plain = load("tiny-copier", dtype="float64", seed=2).model
    whole = merged(model, dict(model.state_dict()))
    plain.load_state_dict(whole)
    torch.testing.assert_close(
        plain(input_ids=IDS).logits, model(input_ids=IDS).logits, rtol=1e-12, atol=1e-12
    )


def test_saved_adapters_open_with_peft_over_the_base(tmp_path: Path) -> None:
    model = load_policy(POLICY, seed=1).model
    drawn(model)
    save_adapters(model, dict(model.state_dict()), tmp_path)
    opened = peft.PeftModel.from_pretrained(
        load("tiny-copier", dtype="float64", seed=1).model, tmp_path / "adapter"
    )
    torch.testing.assert_close(
        opened(input_ids=IDS).logits, model(input_ids=IDS).logits, rtol=1e-12, atol=1e-12
    )
    assert len(load_file(tmp_path / "adapter" / "adapter_model.safetensors")) == 2 * 7 * 2


def test_named_layers_alone_get_an_adapter() -> None:
    model = llama()
    attach(model, LoraOptions(rank=2, target_modules=("q_proj", "down_proj")), seed=0)
    assert {name.split(".")[-4] for name, _ in model.named_parameters() if is_adapter(name)} == {
        "q_proj",
        "down_proj",
    }


def test_a_name_that_no_layer_has_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"'qkv', which is no linear layer .* down_proj, gate_proj"):
        attach(llama(), LoraOptions(target_modules=("qkv",)), seed=0)


def test_a_model_without_linear_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="GPT2LMHeadModel has no linear layer"):
        attach(gpt2(), LoraOptions(), seed=0)
