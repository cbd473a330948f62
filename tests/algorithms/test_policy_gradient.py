"""Value, gradient and divisor of each policy-gradient algorithm on examples worked out by hand."""

import math
from typing import Any

import pytest
import torch

from headrace.algorithms.base import PolicyOutput
from headrace.algorithms.options import GrpoOptions
from headrace.algorithms.registry import build
from headrace.algorithms.updates import Annealed
from tests.algorithms.batches import made, token_batch, value_and_gradient, vector

LOG = math.log


def close(value: float | list[float]) -> object:
    return pytest.approx(value, abs=1e-12)


def test_grpo_clips_the_ratio_to_the_behaviour_policy_and_counts_trained_tokens() -> None:
    logprobs = vector(LOG(0.6), LOG(0.5), LOG(0.9))
    behaviour = vector(LOG(0.5), LOG(0.5), LOG(0.1))
    batch = token_batch([[1, 1], [0]], behaviour=behaviour, advantages=vector(1.0, 1.0, -1.0))
    value, gradient, count = value_and_gradient(made("grpo"), logprobs, batch)
    assert (value, gradient, count) == (close(-1.2 - 1.0), close([-1.2, -1.0, 0.0]), 2.0)


def test_dr_grpo_sums_tokens_over_the_longest_answer_and_means_over_samples() -> None:
    batch = token_batch([[1, 1, 1], [1]], advantages=vector(1.0, 1.0, 1.0, -1.0))
    value, gradient, count = value_and_gradient(
        made("dr_grpo", max_new_tokens=4), torch.zeros(4).double(), batch
    )
    assert (value, gradient, count) == (close((-3 + 1) / 4), close([-0.25, -0.25, -0.25, 0.25]), 2.0)


def test_dapo_clips_higher_above_than_below() -> None:
    logprobs = vector(LOG(1.27), LOG(1.29), LOG(0.79))
    batch = token_batch([[1, 1, 1]], advantages=vector(1.0, 1.0, -1.0))
    value, gradient, count = value_and_gradient(made("dapo"), logprobs, batch)
    assert (value, gradient, count) == (close(-1.27 - 1.28 + 0.8), close([-1.27, 0.0, 0.0]), 3.0)


def test_the_divergence_from_the_reference_is_added_by_its_coefficient() -> None:
    logprobs = vector(LOG(0.5))
    batch = token_batch([[1]], behaviour=logprobs, reference=vector(LOG(0.25)))
    value, gradient, _ = value_and_gradient(made("grpo", kl_coef=0.1, kl_estimator="k2"), logprobs, batch)
    assert (value, gradient) == (close(-1.0 + 0.1 * LOG(2) ** 2 / 2), close([-1.0 + 0.1 * LOG(2)]))


def test_the_entropy_bonus_is_taken_off_by_its_coefficient() -> None:
    entropy = vector(0.5, 0.25).requires_grad_()
    algorithm = made("grpo", entropy_coef=0.1)
    assert algorithm.outputs() == ("entropy",)
    policy = PolicyOutput(logprobs=vector(0.0, 0.0), entropy=entropy)
    loss = algorithm.loss(policy, token_batch([[1, 0]]))
    assert loss.total.item() == close(-1.0 - 0.05)
    (gradient,) = torch.autograd.grad(loss.total, entropy)
    assert gradient.tolist() == close([-0.1, 0.0])


def test_what_a_loss_lacks_is_an_error_that_names_it() -> None:
    policy, batch = PolicyOutput(logprobs=vector(0.0)), token_batch([[1]])
    with pytest.raises(ValueError, match="but the batch has no reference_logprobs"):
        made("grpo", kl_coef=0.1).loss(policy, batch)
    with pytest.raises(ValueError, match="the policy gave no entropy"):
        made("grpo", entropy_coef=0.1).loss(policy, batch)
    with pytest.raises(ValueError, match="the batch has no kept; it has no further columns"):
        made("m2po").loss(policy, batch)


def test_gspo_clips_the_answer_as_one_and_gspo_token_has_the_same_value() -> None:
    """Mean log-ratios: log 2 for the first answer, clipped at 1.0004; 0 for the second."""
    logprobs = vector(LOG(2), LOG(2), LOG(3), LOG(1 / 3))
    batch = token_batch([[1, 1], [1, 1]], advantages=vector(1.0, 1.0, -1.0, -1.0))
    for kind in ("gspo", "gspo_token"):
        value, gradient, count = value_and_gradient(made(kind), logprobs, batch)
        assert (value, gradient, count) == (close(-1.0004 + 1.0), close([0.0, 0.0, 0.5, 0.5]), 2.0)


def test_gspo_token_follows_the_credit_of_each_token() -> None:
    batch = token_batch([[1, 1]], advantages=vector(1.0, -3.0))
    assert value_and_gradient(made("gspo_token"), vector(0.0, 0.0), batch)[1] == close([-0.5, 1.5])
    assert value_and_gradient(made("gspo"), vector(0.0, 0.0), batch)[1] == close([0.5, 0.5])


def test_rloo_clips_the_ratio_of_whole_answers() -> None:
    logprobs = vector(LOG(1.1), 0.0, LOG(1.2), LOG(1.1))
    batch = token_batch([[1, 1], [1, 1]], advantages=vector(2.0, 2.0, 1.0, 1.0))
    value, gradient, count = value_and_gradient(made("rloo"), logprobs, batch)
    assert (value, gradient, count) == (close(-2.2 - 1.2), close([-2.2, -2.2, 0.0, 0.0]), 2.0)


@pytest.mark.parametrize(
    ("kind", "behaviour", "weight"),
    [
        ("decoupled_ppo", 0.2, 2.5),
        ("decoupled_ppo", 0.05, 0.0),
        ("tis", 0.2, 2.0),
        ("tis", 0.5, 1.0),
        ("icepop", 0.2, 2.5),
        ("icepop", 0.05, 0.0),
        ("icepop", 2.0, 0.0),
    ],
)
def test_the_proximal_policy_clips_and_bounded_behaviour_weights_multiply(
    kind: str, behaviour: float, weight: float
) -> None:
    """The ratio 0.6 / 0.5 to the proximal policy is clipped at 1.1; a masked token stays in the divisor."""
    batch = token_batch(
        [[1]], behaviour=vector(LOG(behaviour)), proximal=vector(LOG(0.5)), advantages=vector(2.0)
    )
    value, gradient, count = value_and_gradient(made(kind, clip_high=0.1), vector(LOG(0.6)), batch)
    assert (value, gradient, count) == (close(-weight * 1.1 * 2.0), [0.0], 1.0)


def test_without_a_proximal_policy_the_current_one_is_it_and_the_weight_carries_the_staleness() -> None:
    batch = token_batch([[1]], behaviour=vector(LOG(0.4)), advantages=vector(2.0))
    value, gradient, _ = value_and_gradient(made("tis"), vector(LOG(0.6)), batch)
    assert (value, gradient) == (close(-1.5 * 2.0), close([-1.5 * 2.0]))


def test_decoupled_ppo_equals_ppo_where_behaviour_is_proximal() -> None:
    torch.manual_seed(2)
    logprobs, anchor, credit = torch.randn(3, 6, dtype=torch.float64)
    batch = token_batch([[1, 1, 1], [1, 0, 1]], behaviour=anchor, proximal=anchor, advantages=credit)
    assert value_and_gradient(made("decoupled_ppo"), logprobs, batch) == value_and_gradient(
        made("ppo", critic="node"), logprobs, batch
    )


@pytest.mark.parametrize(("kind", "weight"), [("cispo", 5.0), ("rapid", 2.0)])
def test_a_truncated_weight_keeps_the_gradient_of_every_token(kind: str, weight: float) -> None:
    logprobs = vector(LOG(0.6), LOG(0.3))
    batch = token_batch([[1, 1]], behaviour=vector(LOG(0.1), LOG(0.6)), advantages=vector(2.0, -1.0))
    value, gradient, count = value_and_gradient(made(kind), logprobs, batch)
    assert gradient == close([-weight * 2.0, 0.5])
    assert (value, count) == (close(-weight * 2.0 * LOG(0.6) + 0.5 * LOG(0.3)), 2.0)


def test_topr_weighs_right_answers_by_1_and_wrong_ones_by_their_product_ratio() -> None:
    logprobs, behaviour = vector(LOG(0.9), LOG(0.2), LOG(0.2)), vector(LOG(0.1), LOG(0.4), LOG(0.4))
    batch = token_batch([[1], [1, 1]], behaviour=behaviour, advantages=vector(1.0, -1.0, -1.0))
    _, gradient, count = value_and_gradient(made("topr"), logprobs, batch)
    assert (gradient, count) == (close([-1.0, 0.25, 0.25]), 3.0)


def test_sao_masks_both_sides_whatever_the_credit_and_keeps_the_divisor() -> None:
    logprobs = vector(LOG(0.7), LOG(0.9), LOG(1.3))
    batch = token_batch([[1, 1, 1]], advantages=vector(-1.0, 2.0, -3.0))
    value, gradient, count = value_and_gradient(made("sao", critic="node"), logprobs, batch)
    assert (value, gradient, count) == (close(-1.8), close([0.0, -1.8, 0.0]), 3.0)


def test_m2po_leaves_out_the_tokens_that_break_the_second_moment_of_the_batch() -> None:
    """Squared log-ratios 0.01, 0.04, 0.09: the mean 0.0467 exceeds 0.04, and 0.025 without the last."""
    logprobs = vector(0.1, -0.2, 0.3)
    batch = token_batch([[1, 1], [1]], advantages=vector(1.0, 2.0, 1.0))
    algorithm = made("m2po")
    assert algorithm.needs_full_batch and algorithm.prepares
    value, gradient, count = value_and_gradient(algorithm, logprobs, batch)
    kept = [-math.exp(0.1), -2.0 * math.exp(-0.2), 0.0]
    assert (value, gradient, count) == (close(sum(kept)), close(kept), 3.0)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("grpo", {"dual_clip": 1.1}, "dual_clip is 1.1; it must exceed 1 \\+ clip_high = 1.28"),
        ("tis", {"correction_low": 3.0}, "correction_low is 3.0, above correction_high 2.0"),
        ("sao", {"ratio_high": 0.9}, "ratio_high is 0.9; it must be at least 1"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    kind: str, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        made(kind, **values)


def test_coefficients_that_move_have_the_values_of_their_step() -> None:
    """Entropy 2 on a token that is credited nothing; 0.4 at step 0, 0.3 at 1, 0.2 from 2 on."""
    options = GrpoOptions(
        kl_coef=Annealed(start=0.0, end=0.5, last_step=4),
        entropy_coef=Annealed(start=0.4, end=0.2, last_step=2),
    )
    assert options.needs() == ("reference_logprobs",)
    assert options.annealed() == ("kl_coef", "entropy_coef")
    batch = token_batch([[1]], advantages=vector(0.0), reference=vector(0.0))
    losses = []
    for step in (0, 1, 2, 3):
        algorithm = build(options, max_new_tokens=8, step=step)
        policy = PolicyOutput(logprobs=vector(0.0), entropy=vector(2.0))
        losses.append(algorithm.loss(policy, batch).total.item())
    assert losses == close([-0.8, -0.6, -0.4, -0.4])
    assert options.at(2) == GrpoOptions(kl_coef=0.25, entropy_coef=0.2)


def test_a_coefficient_that_moves_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match=r"kl_coef goes from 0\.1 to -0\.1; neither may be below 0"):
        GrpoOptions(kl_coef=Annealed(start=0.1, end=-0.1, last_step=4))


def test_a_head_is_fitted_to_the_return_within_what_a_value_may_move() -> None:
    """Old value 0.5, clip 0.2. Token 1: 1 to a return of 0: clipped 0.7 misses less, so the error is 1.
    Token 2: 0 to a return of 1: clipped 0.3 misses less, the error is 1 too. Token 3: on the return."""
    columns = {"values": vector(0.5, 0.5, 0.5), "returns": vector(0.0, 1.0, 0.6)}
    batch = token_batch([[1, 1, 1]], advantages=vector(0.0, 0.0, 0.0), columns=columns)
    algorithm = made("ppo", value_coef=0.5)
    assert algorithm.outputs() == ("values",)
    values = vector(1.0, 0.0, 0.6).requires_grad_()
    loss = algorithm.loss(PolicyOutput(logprobs=vector(0.0, 0.0, 0.0), values=values), batch)
    assert loss.total.item() == close(0.5 * 0.5 * (1.0 + 1.0 + 0.0))
    loss.total.backward()
    assert values.grad is not None and values.grad.tolist() == close([0.5, -0.5, 0.0])
    assert [float(loss.sums[f"critic/{name}"]) for name in ("vf_loss", "returns")] == close([1.0, 1.6])
    with pytest.raises(ValueError, match="takes the values of a head"):
        algorithm.loss(PolicyOutput(logprobs=vector(0.0, 0.0, 0.0)), batch)
