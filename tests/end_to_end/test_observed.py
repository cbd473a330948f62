"""A run as those who watch it see it: by Prometheus while it goes on, by TensorBoard, traced, compared."""

import json
import re
from pathlib import Path

import httpx2
import pytest

from headrace.dataflow.cli import main
from tests.end_to_end.runs import ended, events, started, steps, until
from tests.end_to_end.test_live import GRAPH

DOCS = Path(__file__).parents[2] / "docs"


def scraped(directory: Path, path: str) -> str:
    """As Prometheus finds the launch, and asks it."""
    (target,) = json.loads((directory / "prometheus.json").read_text())
    token = (directory / "prometheus.token").read_text()
    answer = httpx2.get(
        f"http://{target['targets'][0]}{path}", headers={"authorization": f"Bearer {token}"}, timeout=60.0
    )
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.nightly
@pytest.mark.parametrize("runtime", ["local", "ray"])
def test_a_run_is_seen_by_all_who_watch_it(
    tmp_path: Path, runtime: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    directory, file = tmp_path / "run", tmp_path / "live.yaml"
    file.write_text(f"{GRAPH}trackers: [tensorboard]\n")
    with started(str(file), f"runtime={runtime}", directory=directory) as process:
        until(process, lambda line: line.startswith("step 1/"))
        said, alone = scraped(directory, "/metrics"), scraped(directory, "/metrics/scores")
        assert main(["stop", "--run", str(directory)]) == 0
        assert ended(process, directory).code == 130
    documented = (DOCS / "metrics.md").read_text().split("## For Prometheus")[1]
    assert set(re.findall(r"^# TYPE (\w+) ", said, flags=re.M)) == set(
        re.findall(r"`(headrace_\w+)`", documented)
    )
    assert 'headrace_replica_state{replica="answers/0",service="answers",state="ready"} 1.0' in said
    assert 'headrace_training{figure="reward/mean",policy="actor"}' in said
    assert "scores/0" in alone and "answers/0" not in alone
    assert not list(directory.glob("prometheus.*"))

    trained = [line["step"] for line in steps(directory)]
    found = EventAccumulator(str(directory / "tensorboard"), size_guidance={"scalars": 0})
    found.Reload()
    assert [each.step for each in found.Scalars("reward/mean")] == trained
    assert events(directory, "tracker_failed", "tracker_missed") == []

    capsys.readouterr()
    assert main(["trace", str(directory), "--json"]) == 0
    traced = json.loads(capsys.readouterr().out)
    assert traced["samples"] == sum(line["samples/trained"] for line in steps(directory))
    assert sum(stage["share"] for stage in traced["stages"]) == pytest.approx(1.0)
    assert main(["compare", str(directory), "--json"]) == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    assert group["figures"]["steps"] == {"mean": len(trained), "std": None, "n": 1}
