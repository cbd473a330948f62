"""Relative paths of a graph, made absolute before anything starts."""

from pathlib import Path

from headrace.algorithms.budgets.options import PythonBudgetOptions
from headrace.algorithms.curricula.options import PythonSamplerOptions
from headrace.algorithms.filters import ChainOptions, Overlong, PythonFilterOptions
from headrace.algorithms.options import PythonOptions
from headrace.dataflow.language.parse import parse
from headrace.dataflow.language.rooted import rooted
from headrace.services.options import JsonlData, PythonVerifier, RewardOptions, SourceOptions, TrainerOptions

GRAPH = """\
name: copy
steps: 1
policies:
  actor: {{model: {model}}}
nodes:
  prompts: {{kind: source, dataset: {{kind: jsonl, path: {path}}}}}
  answers: {{kind: rollout, inputs: [prompts], policy: actor}}
  scores: {{kind: reward, inputs: [answers], verifier: {{kind: python, function: "{function}"}}}}
  learn: {{kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo}}
"""


def after(folder: Path, model: str, path: str, function: str) -> tuple[str, str, str]:
    spec = rooted(parse(GRAPH.format(model=model, path=path, function=function)).spec, folder)
    source, reward = spec.nodes["prompts"].options, spec.nodes["scores"].options
    assert isinstance(source, SourceOptions) and isinstance(source.dataset, JsonlData)
    assert isinstance(reward, RewardOptions) and isinstance(reward.verifier, PythonVerifier)
    return spec.policies["actor"].model, source.dataset.path, reward.verifier.function


def test_files_and_model_folders_are_taken_from_the_folder_of_the_launch(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    assert after(tmp_path, "model", "data/p.jsonl", "mine/score.py:exact") == (
        f"{tmp_path}/model",
        f"{tmp_path}/data/p.jsonl",
        f"{tmp_path}/mine/score.py:exact",
    )


def test_a_sampler_and_a_budget_of_ones_own_are_taken_from_there_too(tmp_path: Path) -> None:
    text = GRAPH.format(model="tiny-copier", path="/p", function="m:f").replace(
        "path: /p}}",
        "path: /p}, sampler: {kind: python, path: 'a/s.py:S'}, budget: {kind: python, path: 'm:B'}}",
    )
    source = rooted(parse(text).spec, tmp_path).nodes["prompts"].options
    assert isinstance(source, SourceOptions)
    assert isinstance(source.sampler, PythonSamplerOptions) and isinstance(source.budget, PythonBudgetOptions)
    assert (source.sampler.path, source.budget.path) == (f"{tmp_path}/a/s.py:S", "m:B")


def test_absolute_paths_names_and_modules_stay_as_they_are(tmp_path: Path) -> None:
    for model in ("tiny-copier", "org/model"):
        written = (model, "/data/p.jsonl", "mine.score:exact")
        assert after(tmp_path, *written) == written
    assert after(tmp_path, "tiny-copier", "/p", "/mine/score.py:exact")[2] == "/mine/score.py:exact"


def test_a_recipe_s_name_wins_over_a_folder_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "tiny-copier").mkdir()
    assert after(tmp_path, "tiny-copier", "/p", "m:f")[0] == "tiny-copier"


def test_classes_of_the_trainer_are_taken_from_the_folder_of_the_launch(tmp_path: Path) -> None:
    text = GRAPH.format(model="tiny-copier", path="p.jsonl", function="m:f")
    own = "learn.algorithm={kind: python, path: mine/loss.py:Mine}"
    chain = "[overlong, {kind: python, path: mine/filter.py:Mine}, {kind: python, path: module:Mine}]"
    spec = parse(text, overrides=(own, f"learn.filter={{kind: chain, filters: {chain}}}")).spec
    trainer = rooted(spec, tmp_path).nodes["learn"].options
    assert isinstance(trainer, TrainerOptions) and isinstance(trainer.filter, ChainOptions)
    assert trainer.algorithm == PythonOptions(path=f"{tmp_path}/mine/loss.py:Mine")
    assert trainer.filter.filters == (
        Overlong(),
        PythonFilterOptions(path=f"{tmp_path}/mine/filter.py:Mine"),
        PythonFilterOptions(path="module:Mine"),
    )
