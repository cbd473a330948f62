"""A policy whose adapters alone are trained: rollouts take them, the checkpoint is a whole model."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from headrace.services.models import load
from tests.end_to_end.copying import copying

peft: Any = pytest.importorskip("peft")
IDS = torch.tensor([[3, 4, 2]])


@pytest.mark.slow
def test_a_run_trains_adapters_and_leaves_a_model_that_opens(tmp_path: Path) -> None:
    course = copying(
        tmp_path / "run",
        "steps=3",
        "policies.actor.lora={rank: 4}",
        "policies.actor.gradient_checkpointing=true",
        "nodes.learn.prompts_per_step=4",
    )
    assert [step["actor/updates"] for step in course.steps] == [1.0, 1.0, 1.0]
    assert all(step["ratio/max"] == pytest.approx(1.0, abs=1e-4) for step in course.steps)
    base = load("tiny-copier", dtype="float32", seed=0).model
    untouched = base(input_ids=IDS).logits
    beside = peft.PeftModel.from_pretrained(base, course.checkpoint() / "adapter")(input_ids=IDS).logits
    whole = AutoModelForCausalLM.from_pretrained(course.checkpoint())(input_ids=IDS).logits
    torch.testing.assert_close(whole, beside, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(whole, untouched, atol=1e-3)
    trained = load_file(course.checkpoint() / "trainer.safetensors")
    moments = {name for name in trained if name.startswith("optimizer/")}
    assert moments and all(".lora_" in name for name in moments)
