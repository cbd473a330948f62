"""A value head trained with its policy: against a plain loop, and nowhere but in the trainer."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedModel

from headrace.algorithms.base import GroupScores
from headrace.algorithms.options import PpoOptions
from headrace.algorithms.registry import build
from headrace.services.options import OptimizerOptions
from headrace.services.scoring.model import PackedModel
from headrace.services.trainer.samples import Samples
from headrace.services.trainer.torch_backend import TorchBackend
from headrace.services.trainer.value_head import ValueHead
from tests.services.scoring.models import gpt2, llama, naive_logprobs
from tests.services.trainer.batches import ragged_samples

Make = Callable[[torch.dtype], PreTrainedModel]
OPTIONS = PpoOptions(value_coef=0.5, gae_whiten=False, gae_lambda=1.0)
ALGORITHM = build(OPTIONS, max_new_tokens=8)


def backend(model: PreTrainedModel, micro_batch_tokens: int = 40) -> TorchBackend:
    return TorchBackend(
        ValueHead(PackedModel(model, temperature=1.0)),
        OptimizerOptions(lr=1e-2),
        micro_batch_tokens=micro_batch_tokens,
        total_steps=None,
    )


def credited(samples: Samples, values: list[np.ndarray]) -> Samples:
    """With GAE at lambda 1 of the head's values."""
    scores = GroupScores(
        groups=samples.groups,
        rewards=samples.rewards,
        lengths=np.array([len(ids) for ids in samples.response_ids]),
        columns={"loss_mask": samples.loss_mask, "values": values},
    )
    return replace(
        samples,
        advantages=ALGORITHM.advantages(scores),
        columns={"values": values, **ALGORITHM.targets(scores)},
        reference_logprobs=None,
    )


def hidden(model: PreTrainedModel, samples: Samples) -> list[torch.Tensor]:
    """State before each answer token, one unpadded pass for each sample."""
    states = []
    for prompt, response in zip(samples.prompt_ids, samples.response_ids, strict=True):
        ids = torch.tensor(np.concatenate((prompt, response)))[None]
        last = model(input_ids=ids, output_hidden_states=True).hidden_states[-1][0]
        states.append(last[len(prompt) - 1 : len(prompt) + len(response) - 1])
    return states


def plain_step(
    model: PreTrainedModel, head: torch.nn.Linear, adamw: torch.optim.AdamW, samples: Samples
) -> None:
    """PPO on one batch, written out: the credit of a token is the reward less its value."""
    with torch.no_grad():
        old = [head(states)[:, 0] for states in hidden(model, samples)]
    current = torch.cat(naive_logprobs(model, list(samples.prompt_ids), list(samples.response_ids), 1.0))
    values = torch.cat([head(states)[:, 0] for states in hidden(model, samples)])
    mask = torch.from_numpy(np.concatenate(samples.loss_mask)).double()
    lengths = torch.tensor([len(ids) for ids in samples.response_ids])
    rewards = torch.repeat_interleave(torch.from_numpy(samples.rewards), lengths)
    credit = rewards - torch.cat(old)
    ratio = (current - torch.from_numpy(np.concatenate(samples.behaviour_logprobs))).exp()
    policy = -torch.minimum(ratio * credit, ratio.clamp(0.8, 1.2) * credit)
    moved = torch.cat(old) + (values - torch.cat(old)).clamp(-0.2, 0.2)
    fit = 0.5 * torch.maximum((values - rewards).square(), (moved - rewards).square())
    adamw.zero_grad()
    (((policy + 0.5 * fit) * mask).sum() / mask.sum()).backward()
    torch.nn.utils.clip_grad_norm_([*model.parameters(), *head.parameters()], 1.0)
    adamw.step()


@pytest.mark.parametrize("make", [llama, gpt2])
def test_ppo_with_a_head_equals_a_plain_loop(make: Make) -> None:
    samples = ragged_samples(3, 3, masked=(2,), empty=(7,))
    plain, ours = make(torch.float64), backend(make(torch.float64))
    head = torch.nn.Linear(32, 1).double()
    for parameter in head.parameters():
        torch.nn.init.zeros_(parameter)
    adamw = torch.optim.AdamW(
        [*plain.parameters(), *head.parameters()], lr=1e-2, betas=(0.9, 0.95), weight_decay=0.0
    )
    for step in range(3):
        plain_step(plain, head, adamw, samples)
        values = ours.before(samples.prompt_ids, samples.response_ids, samples.groups, ["values"])["values"]
        ours.accumulate(credited(samples, values), ALGORITHM)
        result = ours.step(step)
        assert result.sums["critic/vf_loss"] > 0.0
    expected = dict(plain.named_parameters())
    for name, tensor in ours.weights().items():
        torch.testing.assert_close(tensor, expected[name].detach(), rtol=0, atol=1e-9, msg=name)
    torch.testing.assert_close(ours.state()["value_head/weight"], head.weight.detach(), rtol=0, atol=1e-9)
    assert head.weight.detach().abs().max() > 1e-3


def test_a_head_starts_at_nothing_and_its_first_credit_is_the_return() -> None:
    samples = ragged_samples(2, 2)
    values = backend(llama()).before(samples.prompt_ids, samples.response_ids, samples.groups, ["values"])
    assert [row.tolist() for row in values["values"]] == [[0.0] * len(ids) for ids in samples.response_ids]


def test_a_head_is_in_the_trainer_s_tensors_and_in_no_published_or_exported_weight(tmp_path: Path) -> None:
    ours = backend(llama(torch.float32))
    assert ours.weights().keys() == dict(llama().named_parameters()).keys()
    ours.save(tmp_path)
    assert not [name for name in load_file(tmp_path / "model.safetensors") if "value" in name]
    assert {"value_head/weight", "value_head/bias"} <= ours.state().keys()


def test_a_restored_head_goes_on_bit_for_bit() -> None:
    samples, first, second = ragged_samples(2, 3), backend(llama()), backend(llama())

    def step(ours: TorchBackend, number: int) -> None:
        said = ours.before(samples.prompt_ids, samples.response_ids, samples.groups, ["values"])
        ours.accumulate(credited(samples, said["values"]), ALGORITHM)
        ours.step(number)

    step(first, 0)
    second.load_state(
        {name: tensor.clone() for name, tensor in first.weights().items()},
        {name: tensor.clone() for name, tensor in first.state().items()},
    )
    for ours in (first, second):
        step(ours, 1)
    assert first.state().keys() == second.state().keys()
    for name, tensor in first.state().items():
        assert torch.equal(tensor, second.state()[name]), name


def test_a_checkpoint_without_a_head_is_refused_by_name() -> None:
    ours = backend(llama())
    state = {name: tensor for name, tensor in ours.state().items() if not name.startswith("value_head")}
    with pytest.raises(ValueError, match="the checkpoint has no value_head/weight"):
        ours.load_state(ours.weights(), state)
