"""Trackers in processes of their own: TensorBoard, and scripts that die or hang."""

import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import psutil
import pytest

from headrace.dataflow.record.trackers.base import Home, missing
from headrace.dataflow.record.trackers.feed import Feed
from headrace.dataflow.record.trackers.points import Point

TAKES_TWO = """
import os, sys
for _ in range(3): sys.stdin.readline()
os.write(1, b"..")
sys.exit("no key for you")
"""
HANGS = "import time; time.sleep(600)"
CLOSES_ITS_OUTPUT = """
import os, sys, time
os.close(1)
print("closed", file=sys.stderr, flush=True)
time.sleep(600)
"""
STARTS_ANOTHER = """
import subprocess, sys

class Run:
    def log(self, figures, step):
        print("step", step)

    def finish(self):
        print("finished")

def init(**options):
    script = "import sys; print('its input:', repr(sys.stdin.read()))"
    subprocess.run([sys.executable, "-c", script], check=True)
    return Run()
"""


def point(step: int) -> Point:
    return Point(step=step, at=100.0 + step, figures={"reward/mean": step / 2})


def scripted(script: str, log: Path, **options: Any) -> Feed:
    return Feed({}, log, command=(sys.executable, "-c", script), **options)


def closed(feed: Feed, within_s: float = 60.0) -> Feed:
    feed.finish()
    feed.close(within_s=within_s)
    return feed


def opening(run_dir: Path) -> dict[str, Any]:
    return {
        "tracker": {"kind": "tensorboard"},
        "home": {"run_dir": str(run_dir), "name": "copy", "graph": {}},
    }


def test_a_tracker_that_dies_is_known_with_its_last_words_and_the_points_it_missed(tmp_path: Path) -> None:
    feed = scripted(TAKES_TWO, tmp_path / "tracker.log")
    for step in range(5):
        feed.offer(point(step))
    closed(feed)
    assert (feed.failure(), feed.missed) == ("no key for you", 3)


def test_a_tracker_that_closes_its_output_and_lives_is_not_waited_for(tmp_path: Path) -> None:
    feed = scripted(CLOSES_ITS_OUTPUT, log := tmp_path / "tracker.log")
    while "closed" not in log.read_text():
        assert not feed.ended(0.05)
    assert feed.failure() is None
    closed(feed, within_s=0.1)
    assert feed.failure() == "it had not finished in its time after the run, and was ended"


def test_what_a_tracker_starts_has_neither_of_its_pipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trackio.py").write_text(STARTS_ANOTHER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    tracker = {"kind": "trackio", "project": None}
    feed = Feed({**opening(tmp_path), "tracker": tracker}, log := tmp_path / "tracker.log")
    feed.offer(point(7))
    closed(feed)
    assert (feed.failure(), feed.missed) == (None, 0)
    assert sorted(log.read_text().splitlines()) == ["finished", "its input: ''", "step 7"]


def test_a_tracker_that_hangs_is_ended_with_its_processes_and_holds_nobody_up(tmp_path: Path) -> None:
    feed = scripted(HANGS, tmp_path / "tracker.log", most=2)
    for step in range(5):
        feed.offer(point(step))
    assert feed.failure() is None and not feed.ended(0.0)
    closed(feed, within_s=0.1)
    assert feed.failure() == "it had not finished in its time after the run, and was ended"
    assert feed.missed == 5
    assert psutil.Process().children() == []


@pytest.mark.slow
def test_tensorboard_has_every_figure_and_the_steps_of_a_resume_once(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for steps in ([0, 1, 2, 3], [2, 3]):
        feed = Feed(opening(tmp_path), tmp_path / "tracker.log")
        for step in steps:
            feed.offer(point(step))
        closed(feed)
        assert (feed.failure(), feed.missed) == (None, 0), (tmp_path / "tracker.log").read_text()
    found = EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    assert [(each.step, each.value) for each in found.Scalars("reward/mean")] == [
        (0, 0.0),
        (1, 0.5),
        (2, 1.0),
        (3, 1.5),
    ]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("package", "options"),
    [
        ("wandb", {"project": None, "entity": None, "mode": "offline"}),
        ("mlflow", {"uri": None, "experiment": None}),
        ("trackio", {"project": None}),
    ],
)
def test_a_tracker_takes_the_points_of_two_launches_where_its_package_is_installed(
    package: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing(package) is not None:
        pytest.skip(f"{package} is not installed")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    told = {**opening(tmp_path), "tracker": {"kind": package, **options}}
    for steps in (range(3), range(2, 5)):
        feed = Feed(told, tmp_path / "tracker.log")
        for step in steps:
            feed.offer(point(step))
        closed(feed)
        assert (feed.failure(), feed.missed) == (None, 0), (tmp_path / "tracker.log").read_text()


def test_a_run_has_one_identity_however_often_it_is_launched(tmp_path: Path) -> None:
    first, again, other = (Home(run_dir=tmp_path / name, name="copy") for name in ("a", "a", "b"))
    assert (first.id, first.title) == (again.id, "a")
    assert first.id != other.id


@pytest.mark.parametrize("found", [None, ModuleSpec("mlflow", None)])
def test_a_missing_package_is_named_with_what_installs_it(
    found: ModuleSpec | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.dataflow.record.trackers.base.find_spec", lambda _: found)
    assert missing("mlflow") == "the package mlflow is not installed; pip install 'headrace[mlflow]'"
