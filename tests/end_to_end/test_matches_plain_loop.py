"""At staleness 0 the engine takes the steps of a plain PyTorch loop, whatever its runtime and micro-batches.

In float64, so that only a difference in what is computed can show: AdamW turns float32 rounding of gradients
near zero into steps of up to the learning rate (6.5e-6 after ten steps at 1e-3, in a few elements of 527k).
"""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.end_to_end.runs import headrace
from tests.services.trainer.plain_grpo import run as plain_loop

STEPS = 10


@pytest.fixture(scope="module")
def expected() -> dict[str, torch.Tensor]:
    return plain_loop(STEPS, seed=0, lr=1e-3, dtype="float64")


@pytest.mark.slow
@pytest.mark.parametrize(("runtime", "micro_batch_tokens"), [("local", 8192), ("local", 300), ("ray", 300)])
def test_ten_steps_give_the_weights_of_a_plain_loop(
    expected: dict[str, torch.Tensor], tmp_path: Path, runtime: str, micro_batch_tokens: int
) -> None:
    ended = headrace(
        "grpo_copy_cpu",
        "staleness=0",
        f"steps={STEPS}",
        f"runtime={runtime}",
        f"learn.micro_batch_tokens={micro_batch_tokens}",
        "actor.dtype=float64",
        "answers.temperature=1.0",
        "scores.verifier={kind: copy, exact_weight: 0.5}",
        "actor.optimizer={lr: 1.0e-3, betas: [0.9, 0.95]}",
        directory=tmp_path / "run",
    )
    assert ended.code == 0, ended.err
    weights = load_file(ended.directory / "checkpoints" / f"step-{STEPS:08d}" / "model.safetensors")
    assert weights.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (weights[name] - tensor).abs().max() <= 1e-6, name
