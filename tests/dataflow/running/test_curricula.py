"""Launches in this process whose source draws by a sampler and a budget, with the scripted engine."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from headrace.dataflow.language.parse import parse
from headrace.dataflow.record.rundir import RunDir, read_jsonl
from headrace.dataflow.running.launch import launch
from headrace.services.data_position import DataPosition
from headrace.services.trainer.checkpoint import newest

GRAPH = """\
name: copy
steps: 4
runtime: local
no_progress_timeout_s: 120
max_restarts: 1
policies:
  actor: {model: tiny-copier}
nodes:
  prompts: {kind: source, dataset: {kind: copy, letters: [2, 3, 4], size: 60}, samples_per_prompt: 4}
  answers: {kind: rollout, inputs: [prompts], policy: actor, engine: fake, max_new_tokens: 5, threads: 1}
  scores: {kind: reward, inputs: [answers], verifier: copy}
  learn: {kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo, prompts_per_step: 2}
"""
RANDOM = "answers.fake={answer: random}"
DISK = "queue.durability=disk"

DOCS = Path(__file__).parents[3] / "docs" / "curricula.md"

BY_LENGTH = """\
from zlib import crc32

def score(response, example):
    return {2: 1.0, 3: float(crc32(response.encode()) % 2), 4: 0.0}[len(example["answer"])]
"""

ONCE_BROKEN = """\
from pathlib import Path
from headrace.algorithms.curricula.options import MixtureOptions
from headrace.algorithms.curricula import Mixture

class Mine(Mixture):
    def __init__(self, data, marker):
        super().__init__(data, MixtureOptions())
        self.marker = Path(marker)

    def draw(self, count):
        if self._drawn == 8 and not self.marker.exists():
            self.marker.touch()
            raise RuntimeError("the sampler fell over")
        return super().draw(count)
"""


@pytest.fixture(autouse=True)
def quick(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.dataflow.running.supervisor.BACKOFF_FIRST_S", 0.0)


def launched(run: Path, *overrides: str, resume: bool = False) -> int:
    spec = parse(GRAPH, overrides=overrides).spec
    return launch(spec, output=None if resume else run, resume=run if resume else None)


def drawn(run: Path) -> list[tuple[int, int]]:
    """Index and samples at each position."""
    lines = map(json.loads, (run / "sources" / "prompts" / "draws.jsonl").read_text().splitlines())
    records = [line for line in lines if "indices" in line]
    return [pair for r in records for pair in zip(r["indices"], r["samples"], strict=True)]


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    return [e for e in read_jsonl(run / "events.jsonl").records if e["event"] == kind]


def position(run: Path) -> DataPosition:
    found = newest(RunDir.open(run).checkpoints).checkpoint
    assert found is not None
    return DataPosition.of_checkpoint(found.path)


def of_source(run: Path) -> list[dict[str, Any]]:
    lines = read_jsonl(run / "metrics.jsonl").records
    return [line for line in lines if line.get("service") == "prompts/0" and "data/prompts_written" in line]


@pytest.mark.parametrize(("staleness", "ahead"), [("0", "0"), ("0.5", "0"), ("inf", "1")])
def test_dump_hears_of_every_group_and_holds_nothing_up(tmp_path: Path, staleness: str, ahead: str) -> None:
    run = tmp_path / "run"
    overrides = (RANDOM, "prompts.sampler=dump", f"staleness={staleness}", f"prompts.ahead_steps={ahead}")
    assert launched(run, *overrides) == 0
    (table,) = events(run, "queue")
    assert (table["trained"], table["lost"], table["violations"]) == (32, 0, 0)
    assert events(run, "given_up") == events(run, "failed") == []
    figures = of_source(run)[-1]
    counts = [figures[f"data/domain/{name}/drawn"] for name in "234"]
    assert sum(counts) == figures["data/prompts_written"] <= len(drawn(run))
    assert figures["data/prompts_heard"] > 0 and "data/domain/2/probability" in figures
    state = json.loads((run / "sources" / "prompts" / "state.json").read_text())["state"]
    assert sum(state["sampler"]["rows"]) >= 2 * 4 * 2


def test_groups_of_different_sizes_are_trained_on_whole_steps(tmp_path: Path) -> None:
    run = tmp_path / "run"
    budget = "prompts.budget={kind: coba_rl, low: 2, high: 6}"
    assert launched(run, RANDOM, budget, "prompts.ahead_steps=0", "steps=6") == 0
    draws = drawn(run)
    assert all(sum(samples for _, samples in draws[at : at + 2]) == 8 for at in range(0, len(draws), 2))
    assert all(2 <= samples <= 6 for _, samples in draws)
    (table,) = events(run, "queue")
    assert table["lost"] == 0 and position(run).consumed == 12
    used = set(range(position(run).next)) | position(run).done
    assert table["trained"] == sum(draws[at][1] for at in used)


@pytest.mark.parametrize("where", [(), (DISK,)])
def test_a_run_in_two_parts_draws_what_a_run_in_one_does(tmp_path: Path, where: tuple[str, ...]) -> None:
    """A10, for a sampler that goes by its draws alone."""
    mixture = ("prompts.sampler={kind: mixture, proportions: [1, 2, 3]}", *where)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert launched(whole, *mixture, "steps=8") == 0
    assert launched(parts, *mixture, "steps=4") == 0
    assert launched(parts, *mixture, "steps=8", resume=True) == 0
    assert position(whole) == position(parts) == DataPosition(next=16)
    assert drawn(whole)[:16] == drawn(parts)[:16]
    assert len(set(drawn(whole)[:16])) > 8
    assert events(parts, "queue")[-1]["lost"] == 0


def test_a_sampler_and_a_budget_hear_across_a_resume(tmp_path: Path) -> None:
    run = tmp_path / "run"
    chosen = (RANDOM, "prompts.sampler=rule_reasoner", "prompts.budget={kind: trace, low: 2}", DISK)
    assert launched(run, *chosen, "steps=3") == 0
    before = drawn(run)
    assert launched(run, *chosen, "steps=6", resume=True) == 0
    assert drawn(run)[: len(before)] == before
    assert position(run) == DataPosition(next=12)
    assert (events(run, "queue")[-1]["lost"], events(run, "queue")[-1]["duplicated"]) == (0, 0)


def test_a_users_sampler_that_falls_over_goes_on_where_it_stood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The restarted source puts what was drawn and not put, and draws on from there: nothing twice."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(ONCE_BROKEN)
    mine = f"prompts.sampler={{kind: python, path: 'mine.py:Mine', options: {{marker: {tmp_path}/fell}}}}"
    run, smooth = tmp_path / "run", tmp_path / "smooth"
    assert launched(run, mine, "steps=8") == 0
    (failed,) = events(run, "failed")
    assert "the sampler fell over" in failed["reason"]
    assert launched(smooth, mine, "steps=8") == 0
    assert drawn(run)[:16] == drawn(smooth)[:16]
    assert position(run) == DataPosition(next=16)
    (table,) = events(run, "queue")
    assert (table["trained"], table["lost"], table["duplicated"]) == (64, 0, 0)
    assert f"{tmp_path}/mine.py:Mine" in (run / "graph.yaml").read_text()


def test_a_profile_says_which_prompts_are_drawn_and_how_often(tmp_path: Path) -> None:
    """sGPO: from easy to hard without what is trivial, one over the pass rate samples to each."""
    path, run = tmp_path / "data.jsonl", tmp_path / "run"
    rates = (0.25, 1.0, 0.5, 0.125, 0.34, 1.0)
    path.write_text(
        "".join(json.dumps({"prompt": "ab>", "answer": "ab", "pass_rate": rate}) + "\n" for rate in rates)
    )
    data = f"prompts.dataset={{kind: jsonl, path: {path}}}"
    assert launched(run, data, "prompts.sampler=profiled", "prompts.budget=sgpo", RANDOM) == 0
    assert drawn(run)[:6] == [(2, 2), (4, 3), (0, 4), (3, 8), (2, 2), (4, 3)]
    assert position(run) == DataPosition(next=8)


def test_the_sampler_of_the_documentation_runs_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), flags=re.DOTALL)
    (tmp_path / "my_sampler.py").write_text(code)
    (override,) = re.findall(r"headrace run \w+ '(.*?)'", DOCS.read_text())
    run = tmp_path / "run"
    assert launched(run, RANDOM, override, "steps=6") == 0
    indices = [index for index, _ in drawn(run)]
    assert indices[:6] == [0, 1, 2, 3, 4, 5]
    assert position(run) == DataPosition(next=12)


@pytest.mark.slow
def test_through_the_engine_dump_finds_the_domain_that_can_be_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two letters are always right, four never, three now and then: those get the samples."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "score.py").write_text(BY_LENGTH)
    run = tmp_path / "run"
    sizes = ("learn.prompts_per_step=8", "steps=24", "learn.checkpoint_every=0")
    verifier = "scores.verifier={kind: python, function: 'score.py:score'}"
    assert launched(run, RANDOM, "prompts.sampler=dump", verifier, *sizes) == 0
    domains = [index % 3 for index, _ in drawn(run)]
    warm = domains[len(domains) // 3 :]
    assert warm.count(1) > 0.6 * len(warm)
    assert set(domains) == {0, 1, 2}


def test_groups_that_the_trainer_s_filter_drops_are_heard_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those without variance are what tells a curriculum which domains are solved."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "score.py").write_text(BY_LENGTH)
    run = tmp_path / "run"
    verifier = "scores.verifier={kind: python, function: 'score.py:score'}"
    dropping = ("learn.filter=zero_variance", "learn.prompts_per_step=4", "learn.max_attempts=100")
    assert launched(run, RANDOM, "prompts.sampler=dump", verifier, *dropping) == 0
    (table,) = events(run, "queue")
    assert sum(table["dropped"].values()) > 0 and table["lost"] == 0
    state = json.loads((run / "sources" / "prompts" / "state.json").read_text())["state"]
    assert min(state["sampler"]["rows"]) > 0


def test_data_without_what_the_sampler_goes_by_fails_with_the_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"prompt": "ab>", "answer": "ab", "domain": 1}\n{"prompt": "a>", "answer": "a"}\n')
    overrides = (f"prompts.dataset={{kind: jsonl, path: {path}}}", "prompts.sampler=dump")
    assert launched(tmp_path / "run", *overrides) == 1
    assert "entry 1: `domain` is None, other entries have a number or a text there" in capsys.readouterr().err
