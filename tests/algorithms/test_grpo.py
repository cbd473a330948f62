import math
from typing import Any

import numpy as np
import pytest
import torch

from headrace.algorithms.base import GroupScores, TokenBatch
from headrace.algorithms.diagnostics import clipping_is_off, summary
from headrace.algorithms.grpo import Grpo
from headrace.algorithms.registry import build
from tests.algorithms.batches import token_batch, vector


def metrics(logprobs: torch.Tensor, batch: TokenBatch) -> dict[str, float]:
    loss = Grpo().loss(logprobs, batch)
    return summary(
        {name: float(value) for name, value in loss.sums.items()},
        {name: float(value) for name, value in loss.maxima.items()},
    )


def test_loss_value_gradient_and_count_by_hand() -> None:
    logprobs = vector(math.log(0.6), math.log(0.5), math.log(0.9)).requires_grad_()
    behaviour = vector(math.log(0.5), math.log(0.5), math.log(0.1))
    batch = token_batch([[1, 1], [0]], behaviour=behaviour, advantages=vector(1.0, 1.0, -1.0))
    loss = Grpo().loss(logprobs, batch)
    assert loss.count == 2.0
    assert loss.total.item() == pytest.approx(-2.2, abs=1e-12)
    loss.total.backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx([-1.2, -1.0, 0.0], abs=1e-12)


def test_the_proximal_policy_clips_and_behaviour_only_weighs() -> None:
    logprobs = vector(math.log(0.6))
    batch = token_batch(
        [[1]], behaviour=vector(math.log(0.2)), proximal=vector(math.log(0.5)), advantages=vector(2.0)
    )
    assert Grpo().loss(logprobs, batch).total.item() == pytest.approx(-2.5 * 1.2 * 2.0, abs=1e-12)


def test_divergence_from_the_reference_is_added_by_its_coefficient() -> None:
    logprobs = vector(math.log(0.5))
    batch = token_batch([[1]], behaviour=logprobs, reference=vector(math.log(0.25)))
    algorithm = Grpo(kl_coef=0.1, kl_estimator="k2")
    assert algorithm.needs() == ("reference_logprobs",)
    assert algorithm.loss(logprobs, batch).total.item() == pytest.approx(
        -1.0 + 0.1 * math.log(2) ** 2 / 2, abs=1e-12
    )


def test_a_divergence_without_a_reference_is_an_error() -> None:
    with pytest.raises(ValueError, match="but the batch has no reference_logprobs"):
        Grpo(kl_coef=0.1).loss(vector(0.0), token_batch([[1]]))
    assert Grpo().needs() == ()


def test_metrics_by_hand() -> None:
    logprobs = vector(math.log(0.6), math.log(0.3), math.log(0.1), math.log(0.4))
    behaviour = vector(math.log(0.3), math.log(0.6), math.log(0.2), math.log(0.01))
    batch = token_batch(
        [[1, 1, 1, 0]], behaviour=behaviour, advantages=vector(1.0, -1.0, 1.0, 1.0), reference=logprobs
    )
    got = metrics(logprobs, batch)
    log2 = math.log(2)
    expected = {
        "actor/pg_loss": (-1.28 + 0.8 - 0.5) / 3,
        "actor/ppo_kl": log2 / 3,
        "actor/pg_clipfrac": 2 / 3,
        "actor/pg_clipfrac_lower": 1 / 3,
        "ratio/mean": 1.0,
        "ratio/max": 2.0,
        "ratio/std": 0.5**0.5,
        "mismatch/logprob_abs_diff": log2,
        "mismatch/kl": log2 / 3,
        "mismatch/k3": ((2 - 1 - log2) + 2 * (0.5 - 1 + log2)) / 3,
        "is/ess": 2 / 3,
        "kl/ref_k1": 0.0,
        "kl/ref_k3": 0.0,
    }
    assert got == pytest.approx(expected, abs=1e-12)


def test_an_all_masked_batch_has_no_metrics_and_no_count() -> None:
    batch = token_batch([[0, 0]])
    loss = Grpo().loss(vector(-1.0, float("inf")), batch)
    assert (loss.total.item(), loss.count) == (0.0, 0.0)
    assert metrics(vector(-1.0, -1.0), batch) == {}


def test_a_ratio_of_one_on_stale_samples_is_reported_as_clipping_that_is_off() -> None:
    same = metrics(vector(-1.0, -2.0), token_batch([[1, 1]], behaviour=vector(-1.0, -2.0)))
    moved = metrics(vector(-1.0, -2.0), token_batch([[1, 1]], behaviour=vector(-1.1, -2.0)))
    assert clipping_is_off(same, staleness=1.0)
    assert not clipping_is_off(same, staleness=0.0)
    assert not clipping_is_off(moved, staleness=1.0)
    assert not clipping_is_off({}, staleness=1.0)


def test_advantages_are_the_group_z_score() -> None:
    scores = GroupScores(groups=np.array([0, 0]), rewards=np.array([1.0, 0.0]), lengths=np.array([3, 4]))
    pair = 0.5 / (0.5**0.5 + 1e-4)
    assert Grpo().advantages(scores).tolist() == pytest.approx([pair, -pair], abs=1e-15)


def test_the_registry_builds_by_name_and_names_what_there_is() -> None:
    algorithm = build("grpo", {"clip_low": 0.1, "reduction": "prompt_mean"})
    assert algorithm.needs_full_group and algorithm.reduction == "prompt_mean"
    with pytest.raises(ValueError, match="unknown algorithm 'gropo'; choose one of grpo"):
        build("gropo", {})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"clip_low": 1.5}, "clip_low is 1.5; it must lie between 0.0 and 1.0"),
        ({"clip_high": -0.1}, "clip_high is -0.1"),
        ({"kl_coef": -1.0}, "kl_coef is -1.0"),
        ({"kl_estimator": "k4"}, "kl_estimator is 'k4'; choose one of k1, k2, k3"),
        ({"reduction": "mean"}, "reduction is 'mean'; choose one of token_mean"),
    ],
)
def test_values_out_of_range_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Grpo(**values)
