import math

import pytest
import torch

from headrace.algorithms.base import PolicyOutput
from headrace.algorithms.diagnostics import clipping_is_off
from tests.algorithms.batches import loss_of, made, metrics_of, token_batch, vector

LOG2 = math.log(2)


def test_metrics_of_a_clipped_ratio_by_hand() -> None:
    logprobs = vector(math.log(0.6), math.log(0.3), math.log(0.1), math.log(0.4))
    behaviour = vector(math.log(0.3), math.log(0.6), math.log(0.2), math.log(0.01))
    batch = token_batch(
        [[1, 1, 1, 0]], behaviour=behaviour, advantages=vector(1.0, -1.0, 1.0, 1.0), reference=logprobs
    )
    policy = PolicyOutput(logprobs=logprobs, entropy=vector(0.3, 0.6, 0.9, 7.0))
    x, y = (0.3, 0.6, 0.2), (0.6, 0.3, 0.1)
    mean_x, mean_y = sum(x) / 3, sum(y) / 3
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    spread = math.sqrt(sum((a - mean_x) ** 2 for a in x) * sum((b - mean_y) ** 2 for b in y))
    assert metrics_of(made("grpo"), policy, batch) == pytest.approx(
        {
            "actor/pg_loss": (-1.28 + 0.8 - 0.5) / 3,
            "actor/ppo_kl": LOG2 / 3,
            "actor/pg_clipfrac": 2 / 3,
            "actor/pg_clipfrac_lower": 1 / 3,
            "actor/entropy": 0.6,
            "ratio/mean": 1.0,
            "ratio/max": 2.0,
            "ratio/std": 0.5**0.5,
            "is/mean": 1.0,
            "is/max": 2.0,
            "is/min": 0.5,
            "is/std": 0.5**0.5,
            "is/ess": 2 / 3,
            "mismatch/logprob_abs_diff": LOG2,
            "mismatch/kl": LOG2 / 3,
            "mismatch/k3": ((2 - 1 - LOG2) + 2 * (0.5 - 1 + LOG2)) / 3,
            "mismatch/ppl_ratio": math.exp(LOG2 / 3),
            "mismatch/pearson": covariance / spread,
            "kl/ref_k1": 0.0,
            "kl/ref_k3": 0.0,
        },
        abs=1e-12,
    )


def test_weights_of_a_correction_are_those_before_their_bounds() -> None:
    """Weights 4, 1 and 8 of the proximal policy; IcePop leaves the last out, TIS makes 2 of the outer two."""
    batch = token_batch(
        [[1, 1, 1, 0]],
        behaviour=vector(math.log(0.25), 0.0, math.log(0.125), 5.0),
        proximal=torch.zeros(4).double(),
    )
    policy = PolicyOutput(logprobs=torch.zeros(4).double())
    icepop, tis = (metrics_of(made(kind), policy, batch) for kind in ("icepop", "tis"))
    for got, clipped, masked in ((icepop, 1 / 3, 1 / 3), (tis, 2 / 3, 0.0)):
        assert (got["is/frac_clipped"], got["rs/masked_frac"]) == pytest.approx((clipped, masked), abs=1e-12)
        assert (got["is/mean"], got["is/min"], got["is/max"]) == pytest.approx((13 / 3, 1.0, 8.0), abs=1e-12)
        assert got["is/ess"] == pytest.approx((13 / 3) ** 2 / (81 / 3), abs=1e-12)
        assert (got["ratio/mean"], got["ratio/std"]) == (1.0, 0.0)
    assert "rs/masked_frac" not in metrics_of(made("grpo"), policy, batch)


def test_the_perplexity_ratio_is_a_mean_over_samples_that_have_a_trained_token() -> None:
    logprobs = vector(-1.0, -1.0, -1.0, -9.0)
    behaviour = vector(-1.0 + LOG2, -1.0 - LOG2, -1.0 + LOG2, 0.0)
    batch = token_batch([[1, 1], [1], [0]], behaviour=behaviour)
    got = metrics_of(made("grpo"), PolicyOutput(logprobs=logprobs), batch)
    assert got["mismatch/ppl_ratio"] == pytest.approx((1.0 + 2.0) / 2, abs=1e-12)


def test_probabilities_that_do_not_vary_correlate() -> None:
    got = metrics_of(made("grpo"), PolicyOutput(logprobs=vector(0.0, 0.0)), token_batch([[1, 1]]))
    assert got["mismatch/pearson"] == 1.0


def test_an_all_masked_batch_has_no_metrics_and_no_count() -> None:
    batch = token_batch([[0, 0]])
    loss = loss_of(made("grpo"), PolicyOutput(logprobs=vector(-1.0, float("inf"))), batch)
    assert (loss.total.item(), loss.count) == (0.0, 0.0)
    assert metrics_of(made("grpo"), PolicyOutput(logprobs=vector(-1.0, -1.0)), batch) == {}


def test_a_ratio_of_one_on_stale_samples_is_reported_as_clipping_that_is_off() -> None:
    policy = PolicyOutput(logprobs=vector(-1.0, -2.0))
    same = metrics_of(made("grpo"), policy, token_batch([[1, 1]], behaviour=vector(-1.0, -2.0)))
    moved = metrics_of(made("grpo"), policy, token_batch([[1, 1]], behaviour=vector(-1.1, -2.0)))
    assert clipping_is_off(same, staleness=1.0)
    assert not clipping_is_off(same, staleness=0.0)
    assert not clipping_is_off(moved, staleness=1.0)
    assert not clipping_is_off({}, staleness=1.0)


def test_a_ratio_to_the_proximal_policy_is_no_alarm_while_weights_carry_the_staleness() -> None:
    batch = token_batch([[1, 1]], behaviour=vector(-1.1, -2.0))
    got = metrics_of(made("tis"), PolicyOutput(logprobs=vector(-1.0, -2.0)), batch)
    assert got["ratio/std"] == 0.0
    assert not clipping_is_off(got, staleness=1.0)


def test_a_policy_that_has_settled_is_no_alarm() -> None:
    """Its ratios differ by less than their spread, taken from float32 sums, can tell."""
    settled = {
        **{"ratio/std": 0.0, "is/std": 0.0, "actor/pg_clipfrac": 0.0},
        **{"ratio/max": 1.0000432, "is/max": 1.0000432, "is/min": 0.9997889},
    }
    assert not clipping_is_off(settled, staleness=1.0)
