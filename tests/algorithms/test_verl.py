"""Agreement with verl on the same random tensors; golden/make_verl.py wrote what it gives.

Where verl differs: a group of one, left out here, keeps its reward as credit, where ours is 0; means over a
batch divide by the count and 1e-8 more; and k3 is held below 10.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headrace.algorithms.advantages import (
    gae,
    group_mean,
    group_zscore,
    leave_one_out,
    reinforce_pp,
    reinforce_pp_baseline,
    terminal_rewards,
    whiten,
)
from headrace.algorithms.kl import ESTIMATORS
from headrace.algorithms.losses import ppo_clip, value_clip

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden" / "verl.json").read_text())
REWARDS, GROUPS = np.array(GOLDEN["rewards"]), np.array(GOLDEN["groups"])
VALUES = [np.array(row) for row in GOLDEN["inputs"]["old_values"]]
LENGTHS = np.array([len(row) for row in VALUES])
MASKS = [np.ones(length) for length in LENGTHS]
OF_A_BATCH = 1e-8


def flat(name: str) -> torch.Tensor:
    return torch.tensor([value for row in GOLDEN["inputs"][name] for value in row], dtype=torch.float64)


def tokens(rows: list[list[float]]) -> list[float]:
    return [value for row in rows for value in row]


def test_generalised_advantages_and_returns_agree() -> None:
    estimates = gae(
        terminal_rewards(REWARDS, MASKS), VALUES, MASKS, gamma=GOLDEN["gamma"], lam=GOLDEN["lambda"]
    )
    returns = [row.tolist() for row in estimates.returns]
    assert tokens(returns) == pytest.approx(tokens(GOLDEN["credits"]["gae_returns"]), abs=1e-12)
    whitened = [row.tolist() for row in whiten(estimates.advantages, MASKS)]
    assert tokens(whitened) == pytest.approx(tokens(GOLDEN["credits"]["gae_whitened"]), abs=OF_A_BATCH)


def test_returns_over_the_batch_agree() -> None:
    ours = [row.tolist() for row in reinforce_pp(REWARDS, MASKS, gamma=GOLDEN["gamma"])]
    assert tokens(ours) == pytest.approx(tokens(GOLDEN["credits"]["reinforce_pp"]), abs=OF_A_BATCH)


@pytest.mark.parametrize(
    ("name", "credit"),
    [
        ("grpo", group_zscore(REWARDS, GROUPS)),
        ("dr_grpo", group_mean(REWARDS, GROUPS)),
        ("rloo", leave_one_out(REWARDS, GROUPS)),
        ("reinforce_pp_baseline", reinforce_pp_baseline(REWARDS, GROUPS, LENGTHS)),
    ],
)
def test_credits_of_samples_agree(name: str, credit: np.ndarray) -> None:
    near = OF_A_BATCH if name == "reinforce_pp_baseline" else 1e-12
    assert np.repeat(credit, LENGTHS).tolist() == pytest.approx(tokens(GOLDEN["credits"][name]), abs=near)


def test_the_clipped_surrogate_with_its_second_bound_agrees() -> None:
    logprobs = flat("logprobs").requires_grad_()
    losses = ppo_clip(
        logprobs, flat("anchor"), flat("advantages"), clip_low=0.2, clip_high=0.28, dual_clip=1.5
    )
    assert_agrees("dual_clip", losses.mean(), logprobs)


def test_the_clipped_value_loss_agrees() -> None:
    values = flat("values").requires_grad_()
    losses = value_clip(values, flat("old_values"), flat("advantages"), clip=0.2)
    assert_agrees("value", losses.mean(), values)


@pytest.mark.parametrize("name", ["k1", "k2", "k3"])
def test_divergences_agree(name: str) -> None:
    ours = ESTIMATORS[name](flat("logprobs"), flat("reference"))
    assert ours.clamp(max=10.0).tolist() == pytest.approx(tokens(GOLDEN["divergences"][name]), abs=1e-12)


def assert_agrees(name: str, loss: torch.Tensor, leaf: torch.Tensor) -> None:
    want = GOLDEN["losses"][name]
    assert loss.item() == pytest.approx(want["loss"], abs=1e-12)
    (gradient,) = torch.autograd.grad(loss, [leaf])
    assert gradient.tolist() == pytest.approx(tokens(want["gradient"]), abs=1e-12)
