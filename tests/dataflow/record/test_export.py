"""A policy of a run as a model folder, from checkpoints as a trainer writes them."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from headrace.dataflow.cli import main
from headrace.dataflow.record.export import ExportError, export
from headrace.dataflow.record.rundir import RunDir
from headrace.services.models import LoadedModel, load
from headrace.services.trainer.checkpoint import write
from headrace.services.trainer.tensor_files import write_state

TEMPLATE = "{% for message in messages %}{{ message['content'] }}>{% endfor %}"
ONE = """\
name: one
steps: 2
policies:
  actor: {model: tiny-copier}
nodes:
  prompts: {kind: source, dataset: copy}
  answers: {kind: rollout, inputs: [prompts], policy: actor, max_new_tokens: 5}
  scores: {kind: reward, inputs: [answers], verifier: copy}
  learn: {kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo}
"""
TWO = (Path(__file__).parent.parent / "two_policies.yaml").read_text()
IDS = torch.tensor([[3, 5, 7, 2]])


def run_directory(tmp_path: Path, graph: str = ONE) -> RunDir:
    run = RunDir.create("one", tmp_path / "run")
    run.graph.write_text(graph)
    return run


def checkpoint(directory: Path, step: int) -> LoadedModel:
    """Of weights drawn from the step's number."""
    loaded = load("tiny-copier", dtype="float32", seed=step)
    loaded.tokenizer.chat_template = TEMPLATE

    def save(folder: Path) -> None:
        loaded.model.save_pretrained(folder)
        loaded.tokenizer.save_pretrained(folder)
        write_state(folder, {"optimizer/x/exp_avg": torch.zeros(2)})

    write(directory, step, save=save, values={"version": step})
    return loaded


def test_the_folder_opens_as_the_policy_with_its_tokenizer_and_template(tmp_path: Path) -> None:
    run = run_directory(tmp_path)
    checkpoint(run.checkpoints, 1)
    newest = checkpoint(run.checkpoints, 2)
    made = export(run.path, tmp_path / "out" / "model")
    assert (made.policy, made.step, made.skipped) == ("actor", 2, ())
    opened = AutoModelForCausalLM.from_pretrained(made.folder)
    assert torch.equal(opened(IDS).logits, newest.model(IDS).logits)
    tokenizer = AutoTokenizer.from_pretrained(made.folder)
    assert tokenizer.get_vocab() == newest.tokenizer.get_vocab()
    assert tokenizer.apply_chat_template([{"role": "user", "content": "ab"}], return_dict=False) == [3, 4, 2]
    names = {path.name for path in made.folder.iterdir()}
    assert {"config.json", "model.safetensors", "chat_template.jinja"} <= names
    assert not names & {"trainer.safetensors", "state.json", "manifest.json"}
    assert [path.name for path in made.folder.parent.iterdir()] == ["model"]


def test_a_step_is_chosen_by_its_number(tmp_path: Path) -> None:
    run = run_directory(tmp_path)
    first = checkpoint(run.checkpoints, 1)
    checkpoint(run.checkpoints, 2)
    made = export(run.path, tmp_path / "model", step=1)
    opened = AutoModelForCausalLM.from_pretrained(made.folder)
    assert torch.equal(opened(IDS).logits, first.model(IDS).logits)
    with pytest.raises(ExportError, match=r"has no checkpoint of step 3 \(allowed: 1, 2\); name another"):
        export(run.path, tmp_path / "other", step=3)


def test_a_broken_checkpoint_is_passed_over_and_refused_by_its_number(tmp_path: Path) -> None:
    run = run_directory(tmp_path)
    checkpoint(run.checkpoints, 1)
    checkpoint(run.checkpoints, 2)
    weights = run.checkpoints / "step-00000002" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    made = export(run.path, tmp_path / "model")
    assert made.step == 1
    assert [each.reason for each in made.skipped] == ["model.safetensors does not match its sha256"]
    with pytest.raises(ExportError, match=r"not a complete checkpoint: model\.safetensors does not match"):
        export(run.path, tmp_path / "other", step=2)
    assert not (tmp_path / "other").exists()


def test_one_of_several_policies_has_to_be_named(tmp_path: Path) -> None:
    run = run_directory(tmp_path, TWO)
    with pytest.raises(ExportError, match=r"the run trains \w+, \w+; say which by --policy"):
        export(run.path, tmp_path / "model")


def test_a_policy_that_is_not_trained_is_refused(tmp_path: Path) -> None:
    run = run_directory(tmp_path)
    with pytest.raises(ExportError, match=r"trains no policy 'acter' \(allowed: actor\); did you mean"):
        export(run.path, tmp_path / "model", policy="acter")


def test_a_folder_that_holds_something_is_left_as_it_is(tmp_path: Path) -> None:
    run = run_directory(tmp_path)
    checkpoint(run.checkpoints, 1)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").write_text("keep")
    with pytest.raises(ExportError, match="is there and holds something; name a folder that does not exist"):
        export(run.path, tmp_path / "model")
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["mine"]


def test_the_command_says_what_it_wrote_and_ends_with_2_where_it_cannot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_directory(tmp_path)
    folder = tmp_path / "model"
    assert main(["export", str(run.path), str(folder)]) == 2
    assert "has no complete checkpoint; run on until there is one" in capsys.readouterr().err
    checkpoint(run.checkpoints, 1)
    assert main(["export", str(run.path), str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder}: actor of step 1\n"
    assert main(["export", str(tmp_path), str(folder)]) == 2
    assert "is no run directory" in capsys.readouterr().err
