"""Agreement with TRL on the same random tensors; golden/make_trl.py wrote what it gives."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from headrace.algorithms.base import PolicyOutput, TokenBatch
from tests.algorithms.batches import made, token_batch, vector

GOLDEN = json.loads((Path(__file__).parent / "golden" / "trl.json").read_text())
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "grpo": ("grpo", {"reduction": "sequence_mean"}),
    "grpo_divergence": ("grpo", {"reduction": "sequence_mean", "kl_coef": 0.04}),
    "grpo_two_sided": ("grpo", {"reduction": "sequence_mean", "dual_clip": 1.5}),
    "bnpo": ("grpo", {}),
    "bnpo_entropy": ("grpo", {"entropy_coef": 0.05}),
    "bnpo_truncated_importance": ("tis", {"clip_high": 0.28}),
    "dapo": ("dapo", {}),
    "dr_grpo": ("dr_grpo", {"clip_high": 0.28}),
    "cispo": ("cispo", {"weight_high": 1.3}),
    "gspo": ("gspo", {}),
    "gspo_wide": ("gspo", {"clip_low": 0.2, "clip_high": 0.28}),
    "rloo": ("rloo", {}),
}


def batch() -> TokenBatch:
    lengths = GOLDEN["lengths"]
    credit = [value for value, n in zip(GOLDEN["advantages"], lengths, strict=True) for _ in range(n)]
    return token_batch(
        [[1] * length for length in lengths],
        behaviour=vector(*GOLDEN["behaviour"]),
        proximal=vector(*GOLDEN["proximal"]),
        reference=vector(*GOLDEN["reference"]),
        advantages=vector(*credit),
    )


def test_every_golden_case_is_compared() -> None:
    assert OURS.keys() == GOLDEN["cases"].keys()


@pytest.mark.parametrize("name", OURS)
def test_loss_and_gradient_agree_with_trl(name: str) -> None:
    kind, values = OURS[name]
    logprobs, entropy = (vector(*GOLDEN[key]).requires_grad_() for key in ("logprobs", "entropies"))
    algorithm = made(kind, max_new_tokens=GOLDEN["width"], **values)
    loss = algorithm.loss(PolicyOutput(logprobs=logprobs, entropy=entropy), batch())
    mean, want = loss.total / loss.count, GOLDEN["cases"][name]
    assert mean.item() == pytest.approx(want["loss"], abs=1e-12)
    gradients = torch.autograd.grad(mean, [logprobs, entropy], allow_unused=True)
    for got, key in zip(gradients, ("logprobs_gradient", "entropies_gradient"), strict=True):
        ours = torch.zeros_like(logprobs) if got is None else got
        assert ours.tolist() == pytest.approx(want[key], abs=1e-12)
