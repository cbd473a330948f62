"""What the adapters ask of packages that are not installed here: modules of these tests stand in for them."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.dataflow.record.trackers.base import Home
from headrace.dataflow.record.trackers.process import open_tracker, serve

Calls = list[tuple[Any, ...]]
FIGURES = {"reward/mean": 0.5}


def noted(calls: Calls, name: str, answer: Any = None) -> Callable[..., Any]:
    """A function that is remembered with what it was called with."""

    def call(*arguments: Any, **named: Any) -> Any:
        calls.append((name, *arguments, named) if named else (name, *arguments))
        return answer

    return call


def opening(run_dir: Path, **options: Any) -> dict[str, Any]:
    home = {"run_dir": str(run_dir), "name": "copy", "graph": {"steps": 3}}
    return {"tracker": options, "home": home}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(run_dir=tmp_path, name="copy")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Stands modules in for packages; no other test meets the adapters that were imported with them."""
    with monkeypatch.context() as patch:

        def stand_in(**modules: Any) -> None:
            for name, module in modules.items():
                patch.setitem(sys.modules, name.replace("_", "."), module)

        yield stand_in
    for adapter in ("wandb_run", "mlflow_run", "trackio_run"):
        sys.modules.pop(f"headrace.dataflow.record.trackers.{adapter}", None)


def test_wandb_has_one_run_over_steps_that_may_come_again(home: Home, fresh: Callable[..., None]) -> None:
    calls: Calls = []
    run = SimpleNamespace(
        define_metric=noted(calls, "define"), log=noted(calls, "log"), finish=noted(calls, "finish")
    )
    fresh(wandb=SimpleNamespace(init=noted(calls, "init", run), Settings=dict))
    options = {"project": None, "entity": "us", "mode": "offline"}
    tracker = open_tracker(opening(home.run_dir, kind="wandb", **options))
    tracker.log(FIGURES, step=3, at=1.0)
    tracker.close()
    (init, told), *rest = calls
    known = {name: told[name] for name in ("project", "entity", "mode", "id", "resume", "config")}
    assert init == "init" and known == {
        "project": "copy",
        "entity": "us",
        "mode": "offline",
        "id": home.id,
        "resume": "allow",
        "config": {"steps": 3},
    }
    assert rest == [
        ("define", "*", {"step_metric": "step"}),
        ("log", {"reward/mean": 0.5, "step": 3}),
        ("finish",),
    ]


def test_mlflow_goes_on_in_the_run_that_its_tag_finds(home: Home, fresh: Callable[..., None]) -> None:
    calls: Calls = []
    known = SimpleNamespace(info=SimpleNamespace(run_id="r1"))

    def client(tracking_uri: str) -> SimpleNamespace:
        calls.append(("client", tracking_uri))
        return SimpleNamespace(
            get_experiment_by_name=lambda name: SimpleNamespace(experiment_id=f"id of {name}"),
            search_runs=noted(calls, "search", [known]),
            log_batch=noted(calls, "log"),
            set_terminated=noted(calls, "end"),
        )

    fresh(
        mlflow=SimpleNamespace(MlflowClient=client),
        mlflow_entities=SimpleNamespace(Metric=tuple_of),
    )
    tracker = open_tracker(opening(home.run_dir, kind="mlflow", uri="http://tracking", experiment="sums"))
    tracker.log(FIGURES, step=3, at=1.5)
    tracker.close()
    assert calls == [
        ("client", "http://tracking"),
        ("search", ["id of sums"], f"tags.`headrace.run` = '{home.id}'"),
        ("log", "r1", {"metrics": [("reward/mean", 0.5, 1500, 3)]}),
        ("end", "r1"),
    ]


def tuple_of(*values: Any) -> tuple[Any, ...]:
    return values


def test_trackio_goes_on_in_the_run_of_its_name(home: Home, fresh: Callable[..., None]) -> None:
    calls: Calls = []
    run = SimpleNamespace(log=noted(calls, "log"), finish=noted(calls, "finish"))
    fresh(trackio=SimpleNamespace(init=noted(calls, "init", run)))
    tracker = open_tracker(opening(home.run_dir, kind="trackio", project="sums"))
    tracker.log(FIGURES, step=3, at=1.0)
    tracker.close()
    (init, told), *rest = calls
    assert (init, told["project"], told["resume"]) == ("init", "sums", "allow")
    assert told["name"] == f"{home.title}-{home.id[:6]}"
    assert rest == [("log", {"reward/mean": 0.5}, {"step": 3}), ("finish",)]


def test_a_tracker_is_closed_though_it_raises(home: Home, fresh: Callable[..., None]) -> None:
    calls: Calls = []

    def refuse(*_: Any, **__: Any) -> None:
        raise ConnectionError("no server")

    run = SimpleNamespace(log=refuse, finish=noted(calls, "finish"))
    fresh(trackio=SimpleNamespace(init=lambda **_: run))
    point = {"step": 0, "at": 1.0, "figures": {"loss": 1.0}}
    lines = [json.dumps(opening(home.run_dir, kind="trackio", project="p")), json.dumps(point)]
    took: Calls = []
    with pytest.raises(ConnectionError, match="no server"):
        serve(lines, noted(took, "took"))
    assert (calls, took) == ([("finish",)], [])
