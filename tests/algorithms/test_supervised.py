"""SFT, distillation, PACS and ROVER: value, gradient and divisor by hand."""

import math

import pytest
import torch

from headrace.algorithms.base import PolicyOutput
from headrace.algorithms.losses import pacs
from tests.algorithms.batches import loss_of, made, token_batch, value_and_gradient, vector

LOG = math.log
NAN = float("nan")


def close(value: float | list[float]) -> object:
    return pytest.approx(value, abs=1e-12)


def test_sft_is_the_mean_negative_log_likelihood_of_trained_tokens() -> None:
    batch = token_batch([[1, 0], [1]])
    got = value_and_gradient(made("sft"), vector(LOG(0.5), LOG(0.1), LOG(0.25)), batch)
    assert got == (close(3 * LOG(2)), [-1.0, 0.0, -1.0], 2.0)


def test_distillation_follows_the_teacher_and_truncates_the_weight_of_stale_tokens() -> None:
    batch = token_batch(
        [[1, 1]],
        behaviour=vector(LOG(0.5), LOG(0.05)),
        columns={"teacher_logprobs": vector(LOG(0.25), LOG(1.0))},
    )
    got = value_and_gradient(made("opd"), vector(LOG(0.5), LOG(0.5)), batch)
    assert got == (close(LOG(2) - 2 * LOG(2)), close([LOG(2), -2 * LOG(2)]), 2.0)
    assert made("opd").needs() == ("teacher_logprobs",)


def test_pacs_has_the_value_and_the_gradient_of_its_groups_loss() -> None:
    """Scores 0.5 log 2 and 0 of one prompt, labels 1 and 0: psi is +-0.5 log 2."""
    batch = token_batch(
        [[1, 1, 0], [1]],
        groups=[3, 3],
        proximal=vector(LOG(0.25), 0.0, 0.0, 0.0),
        rewards=[1.0, 0.0],
    )
    value, gradient, count = value_and_gradient(
        made("pacs", beta=0.5), vector(LOG(0.5), 0.0, 9.0, 0.0), batch
    )
    psi = 0.5 * LOG(2)
    slope = 1 / (1 + math.exp(-psi)) - 1
    assert value == close(2 * math.log1p(math.exp(-psi)))
    assert gradient == close([slope, slope, 0.0, -slope])
    assert count == 2.0


def test_pacs_leaves_invalid_and_empty_answers_out_of_their_group() -> None:
    batch = token_batch([[1], [1], [0], []], groups=[0, 0, 0, 0], rewards=[1.0, NAN, 1.0, 1.0])
    value, gradient, count = value_and_gradient(made("pacs"), torch.zeros(3).double(), batch)
    assert (value, gradient, count) == (close(LOG(2)), [-0.5, 0.0, 0.0], 1.0)


def test_pacs_agrees_with_the_differentiated_loss_of_many_groups() -> None:
    torch.manual_seed(4)
    logprobs, proximal = 0.3 * torch.randn(2, 12, dtype=torch.float64)
    groups, labels = [0, 1, 0, 1, 1, 0], [1.0, 0.0, 0.0, 1.0, 0.5, 0.0]
    batch = token_batch([[1, 1]] * 6, groups=groups, proximal=proximal, rewards=labels)
    leaf = logprobs.clone().requires_grad_()
    scores = (leaf - proximal).reshape(6, 2).sum(dim=1)
    whole = pacs(scores, vector(*labels), torch.tensor(groups)).sum()
    (want,) = torch.autograd.grad(whole, leaf)
    value, gradient, _ = value_and_gradient(made("pacs"), logprobs, batch)
    assert (value, gradient) == (close(whole.item()), close(want.tolist()))


def test_pacs_refuses_a_reward_that_is_no_label() -> None:
    batch = token_batch([[1]], rewards=[-1.0])
    with pytest.raises(ValueError, match=r"labels in \[0, 1\], got -1.0"):
        made("pacs").prepare(PolicyOutput(logprobs=vector(0.0)), batch)


def test_rover_regresses_to_the_centred_reward_plus_the_next_tokens_mean_value() -> None:
    """Before the first update Q is 0 and so are the values: the target is the centred reward alone."""
    batch = token_batch([[1, 1]], advantages=vector(0.5, 0.5))
    means = vector(-3.0, -4.0)
    got = value_and_gradient(made("rover"), vector(-1.0, -2.0), batch, mean_logprobs=means)
    assert got == (close(0.25 + 0.25), close([-1.0, -1.0]), 2.0)


def test_rover_after_an_update_reads_what_the_proximal_policy_said() -> None:
    batch = token_batch(
        [[1, 1]],
        proximal=vector(-1.2, -2.0),
        advantages=vector(0.5, 0.5),
        columns={"proximal_mean_logprobs": vector(-3.0, -4.5)},
    )
    got = value_and_gradient(made("rover"), vector(-1.0, -2.0), batch, mean_logprobs=vector(-3.0, -4.0))
    assert got == (close(0.8**2 + 0.5**2), close([-1.6, -1.0]), 2.0)


def test_rover_asks_for_the_mean_over_the_vocabulary() -> None:
    assert made("rover").outputs() == ("mean_logprobs",)
    with pytest.raises(ValueError, match="reads mean_logprobs"):
        loss_of(made("rover"), PolicyOutput(logprobs=vector(0.0)), token_batch([[1]]))
