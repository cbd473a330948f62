"""What is found to be not well, and the way out that is named."""

import json
import resource
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.dataflow.cli import app
from headrace.dataflow.doctor.findings import bad, poor, well
from headrace.dataflow.doctor.leftovers import folders, orphans, processes
from headrace.dataflow.doctor.machine import disk, gpus, loopback, open_files, proxies, shared_memory
from headrace.dataflow.doctor.run import looked_into
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.record.rundir import RunDirError
from headrace.dataflow.running.locks import LOCK, held


def test_room_and_limits_below_what_a_run_needs_are_named_with_a_command() -> None:
    memory = Path("/dev/shm")
    assert shared_memory(64 << 20, memory).health == "bad"
    assert "--shm-size" in shared_memory(64 << 20, memory).way_out
    assert shared_memory(8 << 30, memory).health == "well"
    assert (disk(1 << 30, Path("runs")).health, disk(9 << 30, Path("runs")).health) == ("poor", "well")
    assert open_files(1024, 8192) == poor("files", "a process may have 1024 open", "ulimit -n 8192")
    assert open_files(1024, resource.RLIM_INFINITY).way_out == "ulimit -n 65536"
    assert open_files(resource.RLIM_INFINITY, resource.RLIM_INFINITY).health == "well"
    assert loopback() == well("ports", "127.0.0.1 can be listened on")
    assert gpus(Cluster(cpus=4.0, gpus=0.0, cores=4)) == well("GPUs", "none can be seen; 4 cores")


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, 0),
        ({"http_proxy": "http://proxy"}, 1),
        ({"HTTP_PROXY": "http://proxy", "NO_PROXY": "localhost, 127.0.0.1"}, 0),
        ({"all_proxy": "socks://proxy", "no_proxy": "*"}, 0),
        ({"https_proxy": "http://proxy"}, 0),
    ],
)
def test_a_proxy_that_would_be_asked_for_loopback_is_found(environment: dict[str, str], found: int) -> None:
    assert len(list(proxies(environment))) == found


def test_folders_of_dead_runs_are_found_and_those_of_living_ones_are_not(tmp_path: Path) -> None:
    for name in ("headrace-dead", "headrace-live", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "headrace-dead" / LOCK).touch()
    (tmp_path / "headrace-dead" / "rows").write_bytes(bytes(3 << 20))
    with held(tmp_path / "headrace-live"):
        found = orphans(tmp_path, "headrace-")
    assert found == [tmp_path / "headrace-dead"]
    finding = folders("left in shared memory", found)
    assert (finding.health, finding.way_out) == ("poor", f"rm -r {tmp_path}/headrace-dead")
    assert finding.says == "1 folders of dead runs, 3 MiB"
    assert folders("left by Ray", []) == well("left by Ray", "nothing")
    assert processes([tmp_path / "nobody-names-it"]) == well("processes", "none of a dead run")


def test_a_run_that_was_killed_is_told_from_one_that_ended(tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").touch()
    (tmp_path / "events.jsonl").write_text("")
    (tmp_path / "control.json").touch()
    (tmp_path / "checkpoints" / "step-00000002").mkdir(parents=True)
    launch, door, checkpoint = looked_into(tmp_path)
    assert launch == bad(
        "launch", "its launcher was killed before it could end the run", f"headrace resume {tmp_path}"
    )
    assert door.way_out == f"rm {tmp_path}/control.json"
    assert (checkpoint.subject, checkpoint.health) == ("checkpoint", "poor")
    ended = {"time": 1.0, "event": "run_ended", "status": "completed", "cause": ""}
    (tmp_path / "events.jsonl").write_text(json.dumps(ended) + "\n")
    assert next(looked_into(tmp_path)) == well("launch", "it has completed")
    again = {"time": 2.0, "event": "run_started"}
    (tmp_path / "events.jsonl").write_text(f"{json.dumps(ended)}\n{json.dumps(again)}\n")
    assert next(looked_into(tmp_path)) == launch


def test_the_command_ends_with_1_where_something_is_bad(tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").touch()
    (tmp_path / "events.jsonl").write_text("")
    result = CliRunner().invoke(app, ["doctor", str(tmp_path), "--json"])
    assert result.exit_code == 1, result.output
    subjects = [each["subject"] for each in json.loads(result.output)["findings"]]
    assert subjects[:6] == ["packages", "shared memory", "disk", "files", "ports", "GPUs"]
    assert subjects[-4:] == ["left in shared memory", "left by Ray", "processes", "launch"]
    with pytest.raises(RunDirError, match="is no run directory"):
        list(looked_into(tmp_path / "nowhere"))
