# pyright: reportMissingImports=false
"""Writes trl.json: what the loss functions of TRL give on fixed random tensors. Needs a Python with TRL.

    python tests/algorithms/golden/make_trl.py            # TRL 1.16.0 wrote the committed file

Nothing of the trainers is made but what their `_compute_loss` reads: logits are replaced by the
log-probabilities and entropies that the model would have given, in float64, with their gradients taken.
"""

import json
import math
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import trl
from trl import GRPOTrainer, RLOOTrainer

LENGTHS = (3, 6, 1, 4)
WIDTH = 6
SAMPLERS_SPREAD = 0.4
COMMON: dict[str, Any] = {
    "epsilon_low": 0.2,
    "epsilon_high": 0.28,
    "beta": 0.0,
    "delta": None,
    "importance_sampling_level": "token",
    "entropy_coef": 0.0,
    "corrected": False,
}
CASES: dict[str, dict[str, Any]] = {
    "grpo": {"loss_type": "grpo"},
    "grpo_divergence": {"loss_type": "grpo", "beta": 0.04},
    "grpo_two_sided": {"loss_type": "grpo", "delta": 1.5},
    "bnpo": {"loss_type": "bnpo"},
    "bnpo_entropy": {"loss_type": "bnpo", "entropy_coef": 0.05},
    "bnpo_truncated_importance": {"loss_type": "bnpo", "corrected": True},
    "dapo": {"loss_type": "dapo"},
    "dr_grpo": {"loss_type": "dr_grpo"},
    "cispo": {"loss_type": "cispo", "epsilon_high": 1.3},
    "gspo": {
        "loss_type": "grpo",
        "importance_sampling_level": "sequence",
        "epsilon_low": 3e-4,
        "epsilon_high": 4e-4,
    },
    "gspo_wide": {"loss_type": "grpo", "importance_sampling_level": "sequence"},
    "rloo": {"loss_type": "rloo", "epsilon_high": 0.2},
}


def tensors() -> dict[str, torch.Tensor]:
    """[4, 6] each, padded on the right, and advantages [4]."""
    torch.manual_seed(20)
    made = {name: -1.5 + SAMPLERS_SPREAD * torch.randn(4, WIDTH, dtype=torch.float64) for name in NAMES}
    made["entropies"] = torch.rand(4, WIDTH, dtype=torch.float64)
    made["mask"] = (torch.arange(WIDTH)[None] < torch.tensor(LENGTHS)[:, None]).long()
    made["advantages"] = torch.tensor([1.2, -0.7, 0.4, -1.1], dtype=torch.float64)
    return made


NAMES = ("logprobs", "proximal", "behaviour", "reference")


def trainer(case: dict[str, Any], logprobs: torch.Tensor, entropies: torch.Tensor) -> SimpleNamespace:
    """What `_compute_loss` reads of a trainer."""
    args = SimpleNamespace(
        delta=case["delta"],
        use_bias_correction_kl=False,
        steps_per_generation=1,
        entropy_coef=case["entropy_coef"],
    )
    accelerator = SimpleNamespace(
        num_processes=1,
        sync_gradients=True,
        gather=lambda tensor: tensor,
        gather_for_metrics=lambda tensor: tensor,
        reduce=lambda tensor, reduction: tensor,
    )
    return SimpleNamespace(
        **{name: case[name] for name in ("epsilon_low", "epsilon_high", "beta", "loss_type")},
        importance_sampling_level=case["importance_sampling_level"],
        args=args,
        accelerator=accelerator,
        model=SimpleNamespace(training=True),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        use_vllm=case["corrected"],
        vllm_importance_sampling_correction=case["corrected"],
        current_gradient_accumulation_steps=1,
        max_completion_length=WIDTH,
        entropy_coef=case["entropy_coef"],
        _entropy_bonus_enabled=case["entropy_coef"] > 0,
        use_adaptive_entropy=False,
        _metrics={"train": defaultdict(list)},
        _get_per_token_logps_and_entropies=lambda *_, **__: (logprobs, entropies, None),
    )


def run(case: dict[str, Any]) -> dict[str, Any]:
    given = tensors()
    mask = given["mask"]
    logprobs, entropies = given["logprobs"].requires_grad_(), given["entropies"].requires_grad_()
    old = given["proximal"] if case["corrected"] else given["behaviour"]
    inputs: dict[str, Any] = {
        "prompt_ids": torch.zeros(4, 2, dtype=torch.long),
        "prompt_mask": torch.ones(4, 2, dtype=torch.long),
        "completion_ids": torch.zeros(4, WIDTH, dtype=torch.long),
        "completion_mask": mask,
        "advantages": given["advantages"],
        "old_per_token_logps": old,
        "old_logps": (old * mask).sum(1),
        "ref_per_token_logps": given["reference"],
        "num_items_in_batch": mask.sum().double(),
        "importance_sampling_ratio": (given["proximal"] - given["behaviour"]).exp().clamp(max=2.0),
    }
    owner = RLOOTrainer if case["loss_type"] == "rloo" else GRPOTrainer
    made = trainer(case, logprobs, entropies)
    loss = owner._compute_loss(made, made.model, inputs)
    gradients = torch.autograd.grad(loss, [logprobs, entropies], allow_unused=True)
    return {
        "loss": loss.item(),
        "logprobs_gradient": flat(gradients[0], mask),
        "entropies_gradient": flat(gradients[1], mask),
    }


def flat(values: torch.Tensor | None, mask: torch.Tensor) -> list[float]:
    """Values of real tokens, sample after sample; zeros for a gradient that is not there."""
    return (torch.zeros(mask.shape) if values is None else values)[mask.bool()].tolist()


def main() -> None:
    given = tensors()
    mask = given["mask"]
    written = {
        "peer": f"trl {trl.__version__}",
        "lengths": LENGTHS,
        "width": WIDTH,
        "advantages": given["advantages"].tolist(),
        **{name: flat(given[name], mask) for name in (*NAMES, "entropies")},
        "cases": {name: run(COMMON | case) for name, case in CASES.items()},
    }
    assert all(math.isfinite(case["loss"]) for case in written["cases"].values())
    Path(__file__).with_name("trl.json").write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
