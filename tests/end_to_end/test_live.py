"""A run is looked at and changed while it goes on, by the commands of an operator."""

import json
import subprocess
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from headrace.dataflow.cli import app
from headrace.dataflow.control.door import AskRefused
from tests.end_to_end.runs import ended, events, processes, started, steps, until, until_recorded

GRAPH = """\
name: live
staleness: 1
steps: 100000
policies:
  actor: {model: tiny-copier}
nodes:
  prompts: {kind: source, dataset: copy, samples_per_prompt: 2, threads: 1}
  answers: {kind: rollout, inputs: [prompts], policy: actor, engine: fake, max_new_tokens: 4, threads: 1,
            fake: {answer: random, mean_tokens: 4, seconds_per_token: 0.02}}
  scores: {kind: reward, inputs: [answers], verifier: copy}
  learn: {kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo, prompts_per_step: 2,
          threads: 1}
"""


def asked(directory: Path, *command: str, code: int = 0) -> str:
    """What a command of the operator's prints."""
    result = CliRunner().invoke(app, [*command, "--run", str(directory)])
    assert result.exit_code == code, result.output or repr(result.exception)
    return result.output


def refused(directory: Path, *command: str) -> str:
    """What the operator is told, where nothing was done."""
    result = CliRunner().invoke(app, [*command, "--run", str(directory)])
    assert isinstance(result.exception, AskRefused), result.output
    return str(result.exception)


def widened(process: "subprocess.Popen[str]", directory: Path) -> None:
    """Its trainer goes on in two ranks, and in one again."""
    for before, after in ((1, 2), (2, 1)):
        told = asked(directory, "scale", f"learn={after}")
        assert told == f"learn {before} -> {after}: renewed learn/0\n"
        made = len(steps(directory))
        until_recorded(process, lambda made=made: len(steps(directory)) >= made + 2)


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["local", "ray"])
def test_a_live_run_is_changed_in_every_way_and_stopped_and_loses_nothing(
    tmp_path: Path, runtime: str
) -> None:
    directory, file = tmp_path / "run", tmp_path / "live.yaml"
    file.write_text(GRAPH)
    with started(str(file), f"runtime={runtime}", directory=directory) as process:
        until(process, lambda line: line.startswith("step 1/"))
        assert asked(directory, "scale", "answers=3", "--dry-run").startswith("would be: answers 1 -> 3")
        assert asked(directory, "scale", "answers=3") == "answers 1 -> 3: added answers/1, answers/2\n"
        assert asked(directory, "scale", "answers=3") == "answers 3 -> 3: nothing to change\n"
        assert asked(directory, "restart", "scores", "--why", "a drill") == "restarted scores/0\n"
        assert asked(directory, "set", "staleness=2") == "staleness: prompts 2.0\n"
        assert standing(directory) == {
            "answers/0": "ready", "answers/1": "ready", "answers/2": "ready", "learn/0": "ready",
            "prompts/0": "ready", "scores/0": "ready",
        }  # fmt: skip
        assert listening_beyond_loopback(directory) == []
        assert asked(directory, "drain", "answers/0") == "answers 3 -> 2: drained answers/0\n"
        assert asked(directory, "scale", "answers=1") == "answers 2 -> 1: drained answers/2\n"
        assert "answers/1 is the last of answers" in refused(directory, "drain", "answers/1")
        again = ("upgrade", "answers", str(file), f"runtime={runtime}")
        assert asked(directory, *again, "answers.fake.mean_tokens=3") == "upgraded: answers/0\n"
        assert "nodes.answers.temperature: other" in refused(directory, *again, "answers.temperature=2")
        if runtime == "local":
            widened(process, directory)
        asked(directory, "pause", "--why", "a look")
        assert ": a look" in asked(directory, "ps").splitlines()[1]
        assert "is paused already, by" in refused(directory, "pause")
        asked(directory, "resume")
        assert "drills are off; set drills: true" in refused(directory, "inject", "answers/0", "hang")
        token = json.loads((directory / "control.json").read_text())["token"]
        assert not [each for each in psutil.process_iter() if token in " ".join(commands(each))]
        asked(directory, "stop", "--why", "enough")
        run = ended(process, directory)
    assert run.code == 130, run.err
    assert not (directory / "control.json").exists()
    assert not [
        path for path in directory.rglob("*") if path.is_file() and token in path.read_text("latin-1")
    ]
    assert token not in run.out + run.err
    figures, events = run.summary, run.events
    assert (figures["samples_lost"], figures["samples_duplicated"]) == (0, 0)
    assert figures["staleness_violations"] == 0
    drained = [event["replica"] for event in events if event["event"] == "drained"]
    assert drained == ["scores/0", "answers/0", "answers/2", "answers/1"]
    told = [(event["action"], event["why"]) for event in events if event["event"] == "asked"]
    assert told == [
        *(("scale", ""), ("scale", ""), ("restart", "a drill"), ("set staleness", "")),
        *(
            ("drain", ""),
            ("scale", ""),
            ("upgrade", ""),
            *([("scale", "")] * 2 if runtime == "local" else []),
            ("pause", "a look"),
            ("resume", ""),
            ("stop", "enough"),
        ),
    ]
    assert [event for event in events if event["event"] in ("died", "failed")] == []


def listening_beyond_loopback(directory: Path) -> list[str]:
    """Sockets of all processes of a run."""
    found = [
        f"{process.name()} {each.laddr.ip}:{each.laddr.port}"
        for process in processes(directory)
        for each in process.net_connections(kind="inet")
        if each.status == psutil.CONN_LISTEN
    ]
    assert found, "the control API listens"
    loopback = ("127.0.0.1:", "::1:", "::ffff:127.0.0.1:")
    return [each for each in found if not each.rpartition(" ")[2].startswith(loopback)]


def commands(process: psutil.Process) -> list[str]:
    """Of its command line, where it lives yet."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def standing(directory: Path) -> dict[str, str]:
    found = json.loads(asked(directory, "ps", "--json"))
    return {each["replica"]: each["state"] for each in found["replicas"]}


@pytest.mark.nightly
def test_a_service_that_asks_for_it_is_scaled_by_how_busy_it_is(tmp_path: Path) -> None:
    directory, file = tmp_path / "run", tmp_path / "live.yaml"
    slow = GRAPH.replace("seconds_per_token: 0.02", "seconds_per_token: 0.5")
    file.write_text(
        slow.replace("max_new_tokens: 4,", "max_new_tokens: 4, autoscale: {max: 2, cool_down_s: 1},")
    )

    def was_scaled() -> bool:
        return any(each.get("who") == "autoscale" for each in events(directory, "asked"))

    with started(str(file), "runtime=local", "staleness=4", directory=directory) as process:
        until_recorded(process, was_scaled)
        asked(directory, "stop")
        run = ended(process, directory)
    told = next(event for event in run.events if event.get("who") == "autoscale")
    assert (told["action"], told["node"], told["before"], told["after"]) == ("scale", "answers", 1, 2)
    assert "busy of 1 replicas, target 80%" in told["why"]
    assert (run.code, run.summary["samples_lost"], run.summary["staleness_violations"]) == (130, 0, 0)
