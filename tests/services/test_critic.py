"""The critic against a forward pass of its token classifier, one answer at a time."""

import json
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForTokenClassification, PreTrainedModel

from headrace.services.critic import Critic
from headrace.services.models import load_tokenizer
from headrace.services.models.value import fault, load_value
from headrace.services.options import CriticOptions, PolicyOptions
from headrace.transferqueue import Client
from tests.services.bench import Remembered, context
from tests.services.scored_rows import ANSWERS, PROMPTS, scored


def saved_critic(folder: Path, *, labels: int = 1) -> PreTrainedModel:
    config = LlamaConfig(
        vocab_size=13,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
    )
    config.num_labels = labels
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model = LlamaForTokenClassification(config).eval()
    model.save_pretrained(folder)
    load_tokenizer("tiny-copier").save_pretrained(folder)
    return model


@pytest.mark.parametrize("micro_batch_tokens", [8192, 12])
async def test_a_value_is_that_of_the_prompt_and_the_tokens_before(
    tmp_path: Path, micro_batch_tokens: int
) -> None:
    model = saved_critic(tmp_path / "critic")
    critic = Critic()
    options = CriticOptions(micro_batch_tokens=micro_batch_tokens)
    policy = PolicyOptions(model=str(tmp_path / "critic"))
    await critic.setup(context(cast(Client, None), Remembered(), tmp_path, options=options, policy=policy))
    column = await scored(critic, "values")
    for prompt, answer, got in zip(PROMPTS, ANSWERS, column, strict=True):
        with torch.inference_mode():
            before = [model(input_ids=torch.tensor([prompt + answer[:t]])) for t in range(len(answer))]
        expected = [each.logits[0, -1, 0].item() for each in before]
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)
        assert got.dtype == np.float32
    await critic.close()


def test_values_of_a_float64_critic_are_float64(tmp_path: Path) -> None:
    saved_critic(tmp_path)
    model = load_value(str(tmp_path), dtype="float64", seed=0).model
    assert model(input_ids=torch.tensor([[3, 4]])).logits.dtype == torch.float64


def test_what_predicts_no_value_is_refused_by_its_configuration(tmp_path: Path) -> None:
    saved_critic(tmp_path / "two", labels=2)
    saved_critic(tmp_path / "one")
    assert fault(str(tmp_path / "one")) is None
    assert "has 2 labels for each token, a value is one; name tiny-value, or give a folder" in str(
        fault(str(tmp_path / "two"))
    )
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    assert "architecture LlamaForCausalLM, which predicts no values" in str(fault(str(tmp_path)))
    assert "is no folder with config.json" in str(fault("some/where"))
    assert "is a language model, which predicts no values; name tiny-value" in str(fault("tiny-copier"))
    with pytest.raises(ValueError, match="predicts no values"):
        load_value(str(tmp_path), dtype="float32", seed=0)
