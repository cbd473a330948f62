"""What docs/algorithms.md says is true of the code: its names, and its files and dataflow, which are run."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.algorithms.registry import ALGORITHMS
from headrace.dataflow.check import check_here
from headrace.dataflow.language.parse import parse
from headrace.dataflow.language.problems import errors
from headrace.dataflow.record.rundir import read_jsonl
from headrace.dataflow.running.launch import launch

ROOT = Path(__file__).parent.parent
PLACES = {
    **dict.fromkeys(("algorithm", "filter", "update"), "learn"),
    **dict.fromkeys(("sampler", "budget"), "prompts"),
    **{"verifier": "scores", "optimizer": "actor"},
}
"""Where the keys of a part stand in the docs' dataflow; any other is the name of a node."""
DOCS = (ROOT / "docs" / "algorithms.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCS, re.DOTALL)


def rows_of_table(heading: str) -> list[str]:
    """First cells of the first table below a heading."""
    table = re.search(r"\n\|.*?\n\n", DOCS[DOCS.index(heading) :], re.DOTALL)
    assert table is not None
    return [line.split("|")[1] for line in table[0].strip().splitlines()[2:]]


def test_every_algorithm_has_its_line_and_no_other() -> None:
    names = [name for cell in rows_of_table("# Algorithms") for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(names) == sorted([*ALGORITHMS, "python"])
    settings = rows_of_table("## Settings")
    follows = [name for cell in settings for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(follows) == sorted(set(ALGORITHMS) - {"sft"})


def test_each_part_is_chosen_as_it_is_shown() -> None:
    (text,) = blocks("yaml")
    parts = DOCS[DOCS.index("## Parts") : DOCS.index("## One of your own")]
    shown = re.findall(r"`(\w+): (.+?)`(?: \||, )", parts)
    assert {key for key, _ in shown} > set(PLACES)
    for key, value in shown:
        parse(text, overrides=[f"{PLACES.get(key, 'nodes')}.{key}={value}"])


def test_the_paths_that_it_names_exist() -> None:
    paths = re.findall(r"`((?:tests|configs)/[^`]+)`", DOCS)
    assert paths and [path for path in paths if not (ROOT / path).exists()] == []


CREDIT = "{kind: python, path: 'my_credit.py:Fair', reads: [example], over_batch: true}"


@pytest.mark.parametrize("overrides", [[], [f"learn.algorithm={{kind: grpo, advantage: {CREDIT}}}"]])
def test_files_of_ones_own_train_by_their_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: list[str]
) -> None:
    for code in blocks("python"):
        (name,) = re.findall(r'^"""(\w+\.py): ', code)
        (tmp_path / name).write_text(code)
    (text,) = blocks("yaml")
    monkeypatch.chdir(tmp_path)
    spec = parse(text, overrides=overrides).spec
    assert errors(check_here(spec)) == []
    assert launch(replace(spec, steps=3, runtime="local"), output=tmp_path / "run") == 0
    records = read_jsonl(tmp_path / "run" / "metrics.jsonl").records
    steps = [record for record in records if "step" in record]
    assert [step["actor/skipped"] for step in steps] == [0.0, 0.0, 0.0]
    assert all(step["actor/grad_norm"] > 0.0 and "reward/exact" in step for step in steps)
