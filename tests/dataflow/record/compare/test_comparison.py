"""Run directories of a few lines each, compared."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.dataflow.cli import main
from headrace.dataflow.record.compare.comparison import Comparison, compared, differences
from headrace.dataflow.record.compare.page import page, shown
from headrace.dataflow.record.compare.runs import read
from headrace.dataflow.record.compare.spread import Spread
from headrace.dataflow.record.rundir import RunDirError


def made(root: Path, name: str, *, rewards: tuple[float, ...], **settings: Any) -> Path:
    """A run of a step a second, which it begins 10 s after its launch."""
    run = root / name
    run.mkdir()
    (run / "graph.yaml").write_text(yaml.safe_dump({"name": name, **settings}))
    lines: list[dict[str, Any]] = [
        {
            "step": step,
            "policy": "actor",
            "time": 1011.0 + step,
            "reward/mean": reward,
            "perf/step_time": 1.0,
            "perf/tokens_per_s": 100.0,
            "staleness/mean": 0.5,
            "staleness/count/0": 3,
            "staleness/count/1": 1,
        }
        for step, reward in enumerate(rewards)
    ]
    events = [{"time": 1000.0, "event": "run_started", "source": "launch"}]
    for file, records in (("metrics", lines), ("events", events)):
        (run / f"{file}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in records))
    return run


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    return [
        made(tmp_path, "a", seed=0, staleness=0, rewards=(0.0, 0.5)),
        made(tmp_path, "b", seed=1, staleness=0, rewards=(0.5, 1.0)),
        made(tmp_path, "c", seed=0, staleness=4, rewards=(0.25, 0.25, 0.25)),
    ]


def found(runs: list[Path]) -> Comparison:
    return compared(read(runs))


def test_runs_that_differ_in_their_seed_alone_are_one_group(runs: list[Path]) -> None:
    same, other = found([runs[0], runs[1]]).groups[0], found(runs).groups
    assert [run.path.name for run in same.runs] == ["a", "b"]
    assert [[run.path.name for run in group.runs] for group in other] == [["a", "b"], ["c"]]


def test_groups_are_named_by_what_they_have_set(runs: list[Path]) -> None:
    groups = found(runs).groups
    assert [group.label for group in groups] == ["staleness=0", "staleness=4"]


def test_a_key_that_a_run_does_not_have_differs() -> None:
    assert differences([{"a": 1, "b": [1, 2]}, {"a": 1, "b": [1, 3], "c": True}]) == {
        "b": ([1, 2], [1, 3]),
        "c": ("-", True),
    }
    assert differences([{"a": 1}, {"a": 1}]) == {}


def test_figures_and_curves_of_a_group_have_a_spread(runs: list[Path]) -> None:
    group = found(runs).groups[0]
    assert group.figures["reward_last"] == Spread(mean=0.5, std=0.125**0.5, n=2)
    assert group.figures["tokens_per_s"] == Spread(mean=100.0, std=0.0, n=2)
    assert group.figures["exact_last"] is None
    assert group.staleness == {0: 0.75, 1: 0.25}
    steps, seconds = group.curves(("", "reward/mean"))
    assert [(step, spread.mean) for step, spread in steps] == [(0.0, 0.25), (1.0, 0.75)]
    assert (seconds[0][0], seconds[0][1].mean) == (0.0, 0.25)
    assert (seconds[-1][0], seconds[-1][1].mean) == (1.0, 0.75)


def test_the_command_prints_json_and_writes_a_page(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["compare", *map(str, runs)]
    assert main([*arguments, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [run["path"] for run in said["runs"]] == list(map(str, runs))
    assert said["differences"]["staleness"] == [0, 0, 4]
    assert said["groups"][1]["figures"]["reward_last"] == {"mean": 0.25, "std": None, "n": 1}
    assert said["groups"][1]["curves"][0]["by_step"][2] == {"step": 2, "mean": 0.25, "std": None, "n": 1}
    assert main([*arguments, "--output", str(tmp_path / "compare.html")]) == 0
    printed = capsys.readouterr().out
    assert "0.5 ± 0.354 (n=2)" in printed and str(tmp_path / "compare.html") in printed
    assert (tmp_path / "compare.html").read_text().count("<figure>") == 2 * 4


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "line", "circle", "polyline", "polygon"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("line", "circle", "polyline", "polygon"):
            assert self.open.pop() == tag


def test_the_page_is_whole_has_no_script_and_escapes_what_runs_say(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    runs = [
        made(tmp_path, "a", verifier=hostile, rewards=(0.0, 1.0)),
        made(tmp_path, "b", verifier="copy", rewards=(0.0, 1.0)),
    ]
    text, tags = page(found(runs)), Tags()
    tags.feed(text)
    assert tags.open == []
    assert "script" not in {tag for tag, _ in tags.seen} and hostile not in text
    assert not [attrs for _, attrs in tags.seen if "src" in attrs or "href" in attrs]


def test_a_run_without_a_step_is_compared(tmp_path: Path) -> None:
    text = page(found([made(tmp_path, "a", rewards=())]))
    assert "No step has been recorded yet." in text


def test_a_run_that_is_given_twice_is_refused(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(runs[0])
    with pytest.raises(RunDirError, match="is given twice; name each run once"):
        read([runs[0], tmp_path / "latest"])


def test_a_figure_shows_its_spread_where_there_is_one() -> None:
    assert shown(Spread(mean=0.5, std=0.25, n=3)) == "0.5 ± 0.25 (n=3)"
    assert shown(Spread(mean=0.5, std=None, n=1)) == "0.5"
    assert shown(None) == "?"
