# pyright: reportMissingImports=false
"""Writes verl.json: what verl's core algorithms give on fixed random tensors. Needs verl on the path.

    PYTHONPATH=<verl> python tests/algorithms/golden/make_verl.py    # commit b178a3cd wrote verl.json

Everything is float64; answers are padded on the right, as verl has them.
"""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from verl.trainer.ppo import core_algos

LENGTHS = (3, 6, 1, 4, 5, 2)
GROUPS = (0, 0, 1, 1, 1, 0)
WIDTH = 6
REWARDS = (1.0, 0.25, 0.0, 0.5, 1.0, 0.75)
GAMMA, LAMBDA = 0.9, 0.8
COMMIT = "b178a3cd56f58b2d502255daba591e92833930a7"


def tensors() -> dict[str, torch.Tensor]:
    """[6, 6] each."""
    torch.manual_seed(21)
    names = ("logprobs", "anchor", "reference", "values", "old_values", "advantages")
    made = {name: -1.0 + 0.8 * torch.randn(len(LENGTHS), WIDTH, dtype=torch.float64) for name in names}
    made["advantages"] += 1.0
    made["mask"] = (torch.arange(WIDTH)[None] < torch.tensor(LENGTHS)[:, None]).double()
    made["rewards"] = torch.zeros(len(LENGTHS), WIDTH, dtype=torch.float64)
    for row, (length, reward) in enumerate(zip(LENGTHS, REWARDS, strict=True)):
        made["rewards"][row, length - 1] = reward
    return made


def ragged(values: torch.Tensor) -> list[list[float]]:
    return [row[:length].tolist() for row, length in zip(values, LENGTHS, strict=True)]


def credits(t: dict[str, torch.Tensor]) -> dict[str, Any]:
    index, config = np.array(GROUPS), SimpleNamespace(gamma=GAMMA)
    rewards, mask = t["rewards"], t["mask"]
    grouped = {"token_level_rewards": rewards, "response_mask": mask, "index": index}
    estimates, returns = core_algos.compute_gae_advantage_return(
        rewards,
        t["old_values"],
        mask,
        torch.tensor(GAMMA, dtype=torch.float64),
        torch.tensor(LAMBDA, dtype=torch.float64),
    )
    found = {
        "gae_whitened": estimates,
        "gae_returns": returns,
        "grpo": core_algos.compute_grpo_outcome_advantage(**grouped, epsilon=1e-4)[0],
        "dr_grpo": core_algos.compute_grpo_outcome_advantage(**grouped, norm_adv_by_std_in_grpo=False)[0],
        "rloo": core_algos.compute_rloo_outcome_advantage(**grouped)[0],
        "reinforce_pp": core_algos.compute_reinforce_plus_plus_outcome_advantage(rewards, mask, config)[0],
        "reinforce_pp_baseline": core_algos.compute_reinforce_plus_plus_baseline_outcome_advantage(**grouped)[
            0
        ],
    }
    return {name: ragged(values) for name, values in found.items()}


def losses(t: dict[str, torch.Tensor]) -> dict[str, Any]:
    logprobs = t["logprobs"].clone().requires_grad_()
    values = t["values"].clone().requires_grad_()
    policy, *_ = core_algos.compute_policy_loss(
        t["anchor"],
        logprobs,
        t["advantages"],
        t["mask"],
        cliprange_low=0.2,
        cliprange_high=0.28,
        clip_ratio_c=1.5,
    )
    value, _ = core_algos.compute_value_loss(values, t["advantages"], t["old_values"], t["mask"], 0.2)
    found = {"dual_clip": (policy, logprobs), "value": (value, values)}
    return {
        name: {"loss": loss.item(), "gradient": ragged(torch.autograd.grad(loss, [leaf])[0])}
        for name, (loss, leaf) in found.items()
    }


def main() -> None:
    t = tensors()
    divergences = {
        name: ragged(core_algos.kl_penalty(t["logprobs"], t["reference"], name))
        for name in ("k1", "k2", "k3")
    }
    written = {
        "commit": COMMIT,
        "groups": GROUPS,
        "rewards": REWARDS,
        "gamma": GAMMA,
        "lambda": LAMBDA,
        "inputs": {name: ragged(values) for name, values in t.items() if name not in ("mask", "rewards")},
        "credits": credits(t),
        "losses": losses(t),
        "divergences": divergences,
    }
    (Path(__file__).parent / "verl.json").write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
