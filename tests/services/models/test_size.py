import json
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.services import models
from headrace.services.models import tiny_copier
from headrace.services.models.size import folder_size, size
from headrace.services.models.value import load_value


@pytest.mark.parametrize("model", ["tiny-copier", "tiny-value"])
def test_a_recipe_says_the_size_that_its_model_has(model: str, tmp_path: Path) -> None:
    load = load_value if model == "tiny-value" else models.load
    load(model, dtype="float32", seed=0).model.save_pretrained(tmp_path)
    assert size(model) == folder_size(tmp_path) == size(str(tmp_path))


def test_the_cached_tokens_are_keys_and_values_of_every_layer() -> None:
    assert tiny_copier.SIZE.cached_per_token == 2 * 2 * 4 * 32


def test_smollm2_has_the_size_of_its_published_weights() -> None:
    found = size("smollm2-135m-instruct")
    assert found is not None and found.parameters == 134_515_008
    assert found.cached_per_token == 2 * 30 * 3 * 64


def test_a_folder_without_safetensors_or_without_figures_has_no_known_size(tmp_path: Path) -> None:
    config = {
        "num_attention_heads": 4, "hidden_size": 8, "num_hidden_layers": 1, "intermediate_size": 16,
        "vocab_size": 10,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert folder_size(tmp_path) is None
    header = json.dumps({"__metadata__": {}, "w": {"dtype": "F32", "shape": [3, 4]}}).encode()
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    found = folder_size(tmp_path)
    assert found is not None
    assert found == replace(found, parameters=12, kv_heads=4, head_size=2)
    (tmp_path / "config.json").write_text("{}")
    assert folder_size(tmp_path) is None
