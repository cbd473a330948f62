"""What `check` says of data that somebody wrote down."""

import importlib.util
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.dataflow.check import check
from headrace.dataflow.language.parse import parse

GRAPH = """\
name: written
staleness: 0
steps: 1
policies:
  actor: {model: tiny-copier}
nodes:
  prompts: {kind: source, dataset: DATASET, samples_per_prompt: 2}
  answers: {kind: rollout, inputs: [prompts], policy: actor}
  scores: {kind: reward, inputs: [answers], verifier: {kind: python, function: "operator:ne"}}
  learn: {kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo, prompts_per_step: 1}
"""


def problems(dataset: str, *overrides: str) -> list[str]:
    document = parse(GRAPH.replace("DATASET", dataset), file="g.yaml", overrides=overrides)
    return [str(problem) for problem in document.places.locate(check(document.spec))]


def written(folder: Path, **columns: list[Any]) -> str:
    pq.write_table(pa.table(columns), folder / "data.parquet")
    return f"{{kind: parquet, path: {folder}/data.parquet}}"


def test_a_parquet_file_is_counted(tmp_path: Path) -> None:
    assert problems(written(tmp_path, prompt=["a", "b"]), "prompts.epochs=1", "steps=3") == [
        "override prompts.epochs=1: nodes.prompts.epochs: 3 steps need 3 prompts, 1 epoch of 2 gives 2; "
        "set epochs: 2, leave it out, or set steps: 2"
    ]


def test_columns_that_are_not_there_are_refused_with_those_that_are(tmp_path: Path) -> None:
    data = written(tmp_path, question=["a"], answer=["b"])
    assert problems(data, "prompts.dataset.prompt_key=question") == []
    assert problems(data) == [
        f"g.yaml:7: nodes.prompts.dataset: parquet: {tmp_path}/data.parquet has no column `prompt`; "
        "set dataset.prompt_key to one of question, answer"
    ]


def test_a_key_that_lines_do_not_have_is_refused_with_those_they_have(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"question": "a", "answer": "b"}\n')
    assert problems(f"{{kind: jsonl, path: {tmp_path}/data.jsonl}}") == [
        "g.yaml:7: nodes.prompts.dataset.prompt_key: the first line of "
        f"'{tmp_path}/data.jsonl' has no key 'prompt' (allowed: question, answer); name the key of the prompt"
    ]


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.parquet").write_text("hello")
    (problem,) = problems(f"{{kind: parquet, path: {tmp_path}/data.parquet}}")
    assert problem.startswith(
        f"g.yaml:7: nodes.prompts.dataset: parquet: {tmp_path}/data.parquet is no Parquet file"
    )


def test_domains_are_looked_for_among_the_columns(tmp_path: Path) -> None:
    data = written(tmp_path, prompt=["a", "b"], topic=["x", "y"])
    (problem,) = problems(data, "prompts.sampler=dump")
    assert problem.startswith(
        "override prompts.sampler=dump: nodes.prompts.sampler: dump goes by domains, which"
    )
    assert problems(data, "prompts.sampler=dump", "prompts.dataset.domain_key=topic") == []


def test_right_answers_are_looked_for_among_the_columns(tmp_path: Path) -> None:
    pytest.importorskip("math_verify")
    data = written(tmp_path, prompt=["a"], solution=["b"])
    assert problems(data, "scores.verifier=math_verify") == [
        "override scores.verifier=math_verify: nodes.scores.verifier.answer_key: the entries of the data set "
        "have no 'answer' (allowed: solution); name the key of the right answer"
    ]
    assert problems(data, "scores.verifier={kind: math_verify, answer_key: solution}") == []


def test_a_name_that_is_not_in_the_cache_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    datasets: Any = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    (problem,) = problems("{kind: datasets, path: someone/nothing}")
    assert problem.startswith("g.yaml:7: nodes.prompts.dataset: datasets: someone/nothing cannot be opened")
    assert "a name is looked for in the local cache alone: fetch it first with python -c" in problem


def test_limits_that_the_kernel_cannot_keep_are_refused_here_and_told_of_a_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headrace.dataflow.checks.scorers.missing", lambda: "the kernel has no Landlock")
    told = (
        "g.yaml:9: nodes.scores.verifier.limits: they cannot be kept here: the kernel has no Landlock; set "
        "limits: null to run it with all that this user may do, or run on Linux 5.13 or later"
    )
    assert problems("copy") == [told]
    assert problems("copy", "ray_address=auto") == [f"warning: {told}"]
    assert problems("copy", "scores.verifier.limits=null") == []


def test_missing_packages_are_told_with_their_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert problems("{kind: datasets, path: someone/nothing}") == [
        "g.yaml:7: nodes.prompts.dataset: the package datasets is not installed; "
        "pip install 'headrace[datasets]', or use jsonl or parquet"
    ]
    assert problems("copy", "scores.verifier=math_verify") == [
        "override scores.verifier=math_verify: nodes.scores.verifier: the package math-verify is not "
        "installed; pip install 'headrace[math-verify]', or name another one"
    ]
