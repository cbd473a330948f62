"""Adapters become whole weights before vLLM gets them."""

import pytest
import torch
from peft.tuners.lora import LoraLayer

from headrace.services.models import load
from headrace.services.models.lora import added, merged, published
from headrace.services.models.policy import load_policy
from headrace.services.options import LoraOptions, PolicyOptions
from headrace.services.rollout.engines.vllm.adapted import Adapted
from headrace.services.rollout.engines.vllm.engine import base_weights
from headrace.services.rollout.engines.vllm.folder import saved_model
from headrace.services.rollout.engines.vllm.shape import ModelShape

LORA = LoraOptions(rank=2, alpha=6.0)
POLICY = PolicyOptions(model="tiny-copier", lora=LORA)


def adapted() -> Adapted:
    with saved_model("tiny-copier", dtype="float32", seed=3) as saved:
        shape = ModelShape(saved.folder, dtype="float32", longest=None, lora=LORA)
    return Adapted(shape, base_weights(POLICY, seed=3), LORA)


def test_an_adapter_is_added_to_its_layer_and_every_other_tensor_stays_what_it_was() -> None:
    base = {"a.weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "norm.weight": torch.tensor([1.0])}
    adapters = {
        "a.lora_A.default.weight": torch.tensor([[1.0, -1.0]]),
        "a.lora_B.default.weight": torch.tensor([[0.5], [2.0]]),
    }
    whole = added(base, adapters, scale=2.0)
    assert whole["a.weight"].tolist() == [[2.0, 1.0], [7.0, 0.0]]
    assert whole["norm.weight"] is base["norm.weight"]
    assert base["a.weight"].tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_sum_is_rounded_once_to_the_type_of_the_weights() -> None:
    base = {"a.weight": torch.tensor([[1.0]], dtype=torch.bfloat16)}
    adapters = {
        "a.lora_A.default.weight": torch.tensor([[0.00390625]], dtype=torch.bfloat16),
        "a.lora_B.default.weight": torch.tensor([[1.0078125]], dtype=torch.bfloat16),
    }
    whole = added(base, adapters, scale=1.0)
    assert whole["a.weight"].dtype == torch.bfloat16
    assert whole["a.weight"].item() == 1.0078125


def test_what_vllm_gets_of_adapters_is_what_peft_merges_and_what_is_exported() -> None:
    trained = load_policy(POLICY, seed=3).model
    draws = torch.Generator().manual_seed(0)
    for name, parameter in trained.named_parameters():
        if ".lora_B." in name:
            parameter.data.copy_(0.1 * torch.randn(parameter.shape, generator=draws))
    adapters = published(dict(trained.state_dict()))
    served = adapted()
    served.check(adapters)
    whole = served.named(adapters)
    exported = merged(trained, dict(trained.state_dict()))
    assert whole.keys() == {name for name in exported if name != "lm_head.weight"}
    assert all(torch.equal(tensor, exported[name]) for name, tensor in whole.items())
    for name, part in trained.named_modules():
        if isinstance(part, LoraLayer):
            part.merge()
            torch.testing.assert_close(
                whole[f"{name}.weight"], part.base_layer.weight.data, rtol=0, atol=1e-6
            )


def test_whole_weights_and_adapters_of_another_rank_are_refused() -> None:
    served = adapted()
    with pytest.raises(ValueError, match=r"missing: .*lora_A.*unexpected: model\.embed_tokens"):
        served.check(dict(load("tiny-copier", dtype="float32", seed=3).model.state_dict()))
    wider = load_policy(PolicyOptions(model="tiny-copier", lora=LoraOptions(rank=4)), seed=3).model
    with pytest.raises(
        ValueError, match=r"unfit: .*float32 \[4, 128\] where the model has float32 \[2, 128\]"
    ):
        served.check(published(dict(wider.state_dict())))
