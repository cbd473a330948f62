"""A trainer whose model has adapters, is computed again for its gradient, or is of bfloat16."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from headrace.algorithms.clipped import ClippedRatio
from headrace.algorithms.options import GrpoOptions
from headrace.services.models.lora import attach, is_adapter
from headrace.services.options import LoraOptions, OptimizerOptions
from headrace.services.scoring.model import PackedModel
from headrace.services.scoring.packing import pack
from headrace.services.trainer.masters import Masters
from headrace.services.trainer.recomputed import keep_inputs_only
from headrace.services.trainer.torch_backend import TorchBackend
from headrace.services.trainer.value_head import ValueHead
from tests.services.scoring.models import ARCHITECTURES, llama
from tests.services.trainer.batches import OPTIMIZER, ragged_samples

GRPO = ClippedRatio(GrpoOptions(kl_coef=0.1))


def backend(model: PreTrainedModel, optimizer: OptimizerOptions = OPTIMIZER) -> TorchBackend:
    return TorchBackend(
        PackedModel(model, temperature=1.0), optimizer, micro_batch_tokens=40, total_steps=None
    )


def adapted(dtype: torch.dtype = torch.float64) -> PreTrainedModel:
    pytest.importorskip("peft")
    model = llama(dtype)
    attach(model, LoraOptions(rank=3), seed=5)
    return model


def trained(ours: TorchBackend, steps: range) -> TorchBackend:
    samples = ragged_samples(3, 3)
    for step in steps:
        ours.accumulate(samples, GRPO)
        ours.step(step)
    return ours


def copied(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}


def test_a_step_moves_the_adapters_and_leaves_what_they_are_added_to() -> None:
    model, untouched = adapted(), dict(adapted().named_parameters())
    ours = trained(backend(model), range(2))
    assert all(map(is_adapter, ours.weights()))
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, untouched[name]) != is_adapter(name), name


def test_a_saved_model_holds_the_adapters_added_and_beside_it(tmp_path: Path) -> None:
    model = adapted(torch.float32)
    ours = trained(backend(model), range(2))
    ours.save(tmp_path)
    samples = ragged_samples(2, 2)
    whole = AutoModelForCausalLM.from_pretrained(tmp_path, dtype="float32")
    peft: Any = pytest.importorskip("peft")
    beside = peft.PeftModel.from_pretrained(llama(torch.float32), tmp_path / "adapter")
    ids = torch.from_numpy(samples.prompt_ids[0])[None]
    model.set_attn_implementation("sdpa")
    want = model(input_ids=ids).logits
    torch.testing.assert_close(whole(input_ids=ids).logits, want, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(beside(input_ids=ids).logits, want, rtol=1e-5, atol=1e-5)


def test_adapters_are_restored_bit_for_bit() -> None:
    first = trained(backend(adapted(torch.float32)), range(2))
    second = backend(adapted(torch.float32))
    second.load_state({"merged": torch.zeros(1)}, copied(first.state()))
    trained(first, range(2, 4))
    trained(second, range(2, 4))
    for name, tensor in first.weights().items():
        assert torch.equal(tensor, second.weights()[name]), name


def test_a_checkpoint_without_these_adapters_is_refused() -> None:
    ours = backend(adapted())
    state = backend(llama()).state()
    with pytest.raises(ValueError, match=r"has no adapter/.*without these adapters"):
        ours.load_state({}, state)


@pytest.mark.parametrize("make", ARCHITECTURES)
def test_layers_computed_again_give_the_same_gradient(make: Callable[[], PreTrainedModel]) -> None:
    samples, plain, again = ragged_samples(3, 4), make(), make()
    ours, theirs = backend(again), backend(plain)
    keep_inputs_only(again)
    calls = [counted(model) for model in (plain, again)]
    ours.accumulate(samples, GRPO)
    theirs.accumulate(samples, GRPO)
    assert len(calls[1]) == 2 * len(calls[0]) > 0
    for (name, got), want in zip(again.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(got.grad, want.grad, rtol=1e-12, atol=1e-12, msg=name)


def counted(model: PreTrainedModel) -> list[str]:
    """Gets an entry for each pass through the first layer's feed-forward part."""
    calls: list[str] = []
    name, part = next((name, part) for name, part in model.named_modules() if name.endswith("0.mlp"))
    part.register_forward_pre_hook(lambda *_: calls.append(name))
    return calls


def test_a_value_head_learns_beside_layers_computed_again() -> None:
    model = llama()
    head = ValueHead(PackedModel(model, temperature=1.0))
    keep_inputs_only(model)
    packs = pack([np.array([1, 2])], [np.array([3, 4])], np.zeros(1, dtype=np.int64), max_tokens=10)
    values = head.outputs(packs[0], ("values",)).values
    assert values is not None
    values.sum().backward()
    assert all(parameter.grad is not None for parameter in head.own.values())


def test_a_model_of_bfloat16_is_trained_in_float32_and_published_rounded() -> None:
    """Spacing of bfloat16 is 1/256 below 1: steps of 1/1000 are lost in it one by one, and not in float32."""
    weight = torch.nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    masters = Masters({"w": weight})
    optimizer, seen = torch.optim.SGD(masters.stepped.values(), lr=1.0), []
    for _ in range(3):
        weight.grad = torch.full((1,), 2.0**-10, dtype=torch.bfloat16)
        masters.collect()
        optimizer.step()
        optimizer.zero_grad()
        masters.publish()
        seen.append(weight.item())
    assert seen == [1.0, 1.0, 1.0 - 2.0**-8]
    assert masters.state()["master/w"].item() == 1.0 - 3 * 2.0**-10


def test_gradients_of_bfloat16_are_summed_in_float32() -> None:
    weight = torch.nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    masters = Masters({"w": weight})
    for _ in range(256 + 1):
        weight.grad = torch.ones(1, dtype=torch.bfloat16)
        masters.collect()
    gradient = masters.stepped["w"].grad
    assert gradient is not None and gradient.item() == 257.0


def test_a_model_of_bfloat16_is_restored_bit_for_bit() -> None:
    small = OptimizerOptions(lr=1e-4)
    first = trained(backend(llama(torch.bfloat16), small), range(2))
    second = backend(llama(torch.bfloat16), small)
    second.load_state(copied(first.weights()), copied(first.state()))
    trained(first, range(2, 4))
    trained(second, range(2, 4))
    for name, tensor in first.state().items():
        assert torch.equal(tensor, second.state()[name]), name
    assert {tensor.dtype for tensor in first.weights().values()} == {torch.bfloat16}


def test_a_checkpoint_of_another_dtype_is_refused() -> None:
    ours = backend(llama(torch.bfloat16))
    with pytest.raises(ValueError, match=r"no float32 copy of model\.embed_tokens\.weight"):
        ours.load_state(copied(ours.weights()), backend(llama(torch.float32)).state())
