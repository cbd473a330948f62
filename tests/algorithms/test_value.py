"""The fit of a value model: returns, loss, gradient and diagnostics by hand."""

import math

import numpy as np
import pytest

from headrace.algorithms.base import GroupScores, PolicyOutput
from headrace.algorithms.diagnostics import summary
from headrace.algorithms.options import PpoOptions, ValueOptions
from tests.algorithms.batches import made, metrics_of, token_batch, vector


def close(expected: object) -> object:
    return pytest.approx(expected, abs=1e-12)


def scores(*rewards: float) -> GroupScores:
    """Answers of two tokens, of which 0.5 and 0.25 were expected."""
    size = len(rewards)
    return GroupScores(
        groups=np.zeros(size, dtype=np.int64),
        rewards=np.array(rewards),
        lengths=np.full(size, 2),
        columns={"loss_mask": [np.ones(2)] * size, "values": [np.array([0.5, 0.25])] * size},
    )


def test_it_needs_the_critic_s_column_and_no_log_probability() -> None:
    options = ValueOptions()
    assert (options.needs(), options.trains_values, options.compares_group) == (("values",), True, False)
    algorithm = made("value")
    assert (algorithm.outputs(), algorithm.trains_values, algorithm.needs_full_batch) == (
        ("values",),
        True,
        False,
    )
    assert not PpoOptions().trains_values and not made("ppo").trains_values


def test_the_return_is_the_reward_itself_unless_the_values_written_are_leant_on() -> None:
    """At lambda 0.5 the errors of one step are -0.25 and 0.75: 0.5 - 0.25 + 0.5 * 0.75 and 0.25 + 0.75."""
    (whole,) = made("value").targets(scores(1.0))["returns"]
    assert whole.tolist() == close([1.0, 1.0])
    (short,) = made("value", gae_lambda=0.5).targets(scores(1.0))["returns"]
    assert short.tolist() == close([0.625, 1.0])
    (discounted,) = made("value", gamma=0.5).targets(scores(1.0))["returns"]
    assert discounted.tolist() == close([0.5, 1.0])
    assert np.asarray(made("value").advantages(scores(1.0, 0.0))).tolist() == [0.0, 0.0]


def test_a_value_is_fitted_within_what_it_may_move() -> None:
    """Token 1 moved from 0.5 to 0.9, where 0.7 is allowed: it errs by 0.3 and is held. Token 2 by 0.75."""
    columns = {"values": vector(0.5, 0.25, 9.0), "returns": vector(1.0, 1.0, 9.0)}
    batch = token_batch([[1, 1, 0]], columns=columns)
    values = vector(0.9, 0.25, 4.0).requires_grad_()
    nothing = vector(math.nan, math.nan, math.nan)
    loss = made("value").loss(PolicyOutput(logprobs=nothing, values=values), batch)
    assert (loss.total.item(), loss.count) == close((0.5 * 0.09 + 0.5 * 0.5625, 2.0))
    loss.total.backward()
    assert values.grad is not None and values.grad.tolist() == close([0.0, -0.75, 0.0])
    free = made("value", value_clip=None).loss(PolicyOutput(logprobs=nothing, values=values), batch)
    assert free.total.item() == close(0.5 * 0.01 + 0.5 * 0.5625)
    assert free.sums["critic/vf_clipfrac"].item() == 0.0


def test_an_invalid_reward_exerts_no_pull() -> None:
    columns = {"values": vector(0.5, 0.5), "returns": vector(0.5, 1.0)}
    batch = token_batch([[1], [1]], columns=columns, rewards=[math.nan, 1.0])
    values = vector(0.9, 0.5).requires_grad_()
    loss = made("value").loss(PolicyOutput(logprobs=vector(math.nan, math.nan), values=values), batch)
    loss.total.backward()
    assert loss.count == 2.0
    assert values.grad is not None and values.grad.tolist() == close([0.0, -0.5])


def test_its_metrics_by_hand() -> None:
    """Returns 1 and 0 vary by 0.25; what 0.5 and 0.25 miss of them, 0.5 and -0.25, by 0.140625."""
    columns = {"values": vector(0.5, 0.25), "returns": vector(1.0, 0.0)}
    policy = PolicyOutput(logprobs=vector(math.nan, math.nan), values=vector(0.8, 0.25))
    assert metrics_of(made("value"), policy, token_batch([[1], [1]], columns=columns)) == close(
        {
            "critic/vf_loss": (0.5 * 0.09 + 0.5 * 0.0625) / 2,
            "critic/values": 0.375,
            "critic/returns": 0.5,
            "critic/vf_clipfrac": 0.5,
            "critic/vf_explained_var": 1.0 - 0.140625 / 0.25,
        }
    )


def test_equal_returns_have_nothing_to_explain() -> None:
    columns = {"values": vector(0.5, 0.25), "returns": vector(1.0, 1.0)}
    policy = PolicyOutput(logprobs=vector(0.0, 0.0), values=vector(0.5, 0.25))
    loss = made("value").loss(policy, token_batch([[1], [1]], columns=columns))
    figures = summary({name: float(value) for name, value in loss.sums.items()}, {})
    assert figures["critic/vf_explained_var"] == 0.0


def test_a_model_without_values_is_refused() -> None:
    columns = {"values": vector(0.5), "returns": vector(1.0)}
    with pytest.raises(ValueError, match="value fits a value model, and the model gave no values"):
        made("value").loss(PolicyOutput(logprobs=vector(0.0)), token_batch([[1]], columns=columns))
