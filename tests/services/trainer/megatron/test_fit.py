import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import Qwen2Config

from headrace.services.trainer.megatron.fit import fault, missing
from headrace.services.trainer.megatron.geometry import Geometry

CONFIG = {
    "model_type": "qwen2",
    "vocab_size": 23,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@dataclass(frozen=True)
class Layout:
    tp: int = 1
    pp: int = 1


def folder(path: Path, **changes: object) -> str:
    (path / "config.json").write_text(json.dumps(CONFIG | changes))
    save_file({"model.norm.weight": torch.ones(32)}, path / "model.safetensors")
    return str(path)


def test_recipes_of_the_llama_family_fit() -> None:
    assert fault("tiny-copier", Layout(tp=4, pp=2)) is None


@pytest.mark.parametrize(
    ("layout", "problem"),
    [
        (Layout(tp=2, pp=3), None),
        (
            Layout(tp=4),
            "it has 2 key-value heads, which tp: 4 does not divide; choose a tp that does",
        ),
        (Layout(pp=2), "it has 3 layers, which pp: 2 does not divide; choose a pp that does"),
    ],
)
def test_a_layout_that_does_not_divide_the_model_is_refused(
    layout: Layout, problem: str | None, tmp_path: Path
) -> None:
    found = fault(folder(tmp_path), layout)
    assert found is None if problem is None else found is not None and problem in found


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model_type": "gpt2"}, "its model_type is gpt2, and llama, qwen2, qwen3 are supported"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "its rope type is yarn, and default, linear, llama3"),
        ({"hidden_act": "gelu"}, "its activation is gelu, and silu is supported"),
        ({"use_sliding_window": True}, "its use_sliding_window is set, which is not supported"),
    ],
)
def test_what_would_be_computed_otherwise_is_refused_by_name(
    changes: dict[str, object], problem: str, tmp_path: Path
) -> None:
    found = fault(folder(tmp_path, **changes), Layout())
    assert found is not None
    assert problem in found
    assert found.endswith("train it with backend: torch")


def test_what_config_json_leaves_out_is_judged_when_the_whole_configuration_is_known() -> None:
    geometry = Geometry.of(Qwen2Config(num_hidden_layers=3, num_key_value_heads=2).to_dict())
    geometry.check_layout(tp=2, pp=3)
    with pytest.raises(ValueError, match="it has 2 key-value heads, which tp: 4 does not divide"):
        geometry.check_layout(tp=4, pp=1)


def test_what_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing() is None
    monkeypatch.setattr("headrace.services.trainer.megatron.fit.importlib.util.find_spec", lambda name: None)
    assert missing() == (
        "backend: megatron needs megatron-core, which is not installed; install it with "
        "`pip install 'headrace[megatron]'`, or train with backend: torch"
    )
