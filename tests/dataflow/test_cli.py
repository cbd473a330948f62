"""The command line as a script sees it: output, exit codes, and what it leaves unimported."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.dataflow.cli import main
from headrace.dataflow.language.spec import GraphSpec

GRAPH = """\
name: copy
steps: 10
policies:
  actor: {model: tiny-copier}
nodes:
  prompts: {kind: source, dataset: copy}
  answers: {kind: rollout, inputs: [prompts], policy: actor, max_new_tokens: 5}
  scores: {kind: reward, inputs: [answers], verifier: copy}
  learn: {kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo}
"""


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("g.yaml").write_text(GRAPH)
    return "g.yaml"


def test_check_of_a_good_graph_ends_with_0(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", graph]) == 0
    assert capsys.readouterr() == ("g.yaml: ready to run: 4 nodes, 1 policy, 10 steps\n", "")


@pytest.mark.parametrize("command", ["run", "check", "plan", "draw"])
def test_a_misspelt_key_ends_with_2_and_plain_text(
    command: str, graph: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(graph).write_text(GRAPH.replace("verifier: copy", "verifer: copy"))
    assert main([command, graph]) == 2
    assert capsys.readouterr() == (
        "",
        "g.yaml:8: nodes.scores.verifer: a reward has no key 'verifer' (allowed: kind, inputs, replicas, "
        "autoscale, threads, cpus, gpus, resources, placement, on_failure, stalled_after_s, verifier, "
        "column, max_error_rate); did you mean 'verifier'?\n",
    )


def test_a_graph_that_cannot_be_drawn_is_refused(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", graph, "answers.inputs=[learn]"]) == 2
    assert "'learn' is a trainer, which writes no columns" in capsys.readouterr().err


def test_a_warning_is_shown_and_stops_nothing(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", graph, "learn.algorithm.kl_estimator=k1"]) == 0
    assert capsys.readouterr().err.startswith(
        "warning: override learn.algorithm.kl_estimator=k1: nodes.learn.algorithm.kl_estimator: no effect"
    )


def test_plan_prints_json_for_scripts(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", graph, "--json", "actor.optimizer.schedule=linear"]) == 0
    planned = json.loads(capsys.readouterr().out)
    rates = planned["rates"]["actor"]
    assert rates.pop("last") == pytest.approx(0.0001)
    assert rates == {"first": 0.001, "middle": 0.0005, "optimizer_steps": 10}
    assert planned["batches"]["prompts"]["samples_per_step"] == 256


def test_plan_tells_people_the_arithmetic_and_the_rates(
    graph: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", graph]) == 0
    text = capsys.readouterr().out
    assert "32 prompts x 8 samples = 256 rows of 'prompts'" in text
    assert "actor: 0.001 at step 1, 0.001 at step 6, 0.001 at step 10" in text
    learn, optimizer = "learn.update={kind: mini_batches, number: 2}", "actor.optimizer.schedule"
    assert main(["plan", graph, learn, f"{optimizer}=linear"]) == 0
    assert (
        "actor: 0.001 at optimizer step 1, 0.0005 at optimizer step 11, 5e-05 at optimizer step 20; "
        "2 to a training step" in " ".join(capsys.readouterr().out.split())
    )
    assert main(["plan", graph, f"{optimizer}=greedy"]) == 0
    assert "actor: 0.001 at step 1, then by the loss" in capsys.readouterr().out


def test_draw_makes_a_mermaid_chart(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", graph, "--format", "mermaid"]) == 0
    assert capsys.readouterr().out.startswith("flowchart TB\n")


def test_draw_writes_the_format_that_the_name_of_the_file_says(
    graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beginnings = {"g.svg": "<svg ", "g.mmd": "flowchart TB", "g.txt": "prompts  (source copy"}
    for name, beginning in beginnings.items():
        assert main(["draw", graph, "--output", str(tmp_path / name)]) == 0
        assert capsys.readouterr().out == f"{tmp_path / name}\n"
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(beginning)


def test_keys_tell_type_bounds_default_and_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "trainer"]) == 0
    text = capsys.readouterr().out
    assert "  inputs: list of text, required\n" in text
    assert (
        "  prompts_per_step: whole number at least 1, default 32\n      Groups in one training step.\n"
        in text
    )
    assert main(["keys", "trainr"]) == 2
    assert "did you mean 'trainer'?" in capsys.readouterr().err


def test_nothing_to_resume_is_refused(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", graph, "--resume"]) == 2
    assert capsys.readouterr().err == (
        "there is no run of 'copy' in runs/copy to go on with; leave --resume out\n"
    )


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What was launched; every run ends with 1."""
    calls: list[dict[str, Any]] = []

    def launch(spec: GraphSpec, *, output: Path | None, resume: Path | None) -> int:
        calls.append({"steps": spec.steps, "runtime": spec.runtime, "output": output, "resume": resume})
        return 1

    monkeypatch.setitem(sys.modules, "headrace.dataflow.running.launch", SimpleNamespace(launch=launch))
    return calls


def test_run_launches_the_graph_and_ends_as_the_run_did(graph: str, launched: list[dict[str, Any]]) -> None:
    assert main(["run", graph, "steps=3", "--runtime", "local", "--output", "out"]) == 1
    assert launched == [{"steps": 3, "runtime": "local", "output": Path("out"), "resume": None}]


def test_a_run_directory_goes_on_as_it_was_or_with_more_steps(
    graph: str, launched: list[dict[str, Any]]
) -> None:
    Path("out").mkdir()
    Path(graph).rename("out/graph.yaml")
    assert main(["run", "out"]) == 1
    assert main(["run", "out", "steps=20"]) == 1
    assert main(["run", "out", "--output", "elsewhere"]) == 2
    assert [(call["steps"], call["output"], call["resume"]) for call in launched] == [
        (10, None, Path("out")),
        (20, None, Path("out")),
    ]


def test_resume_goes_on_with_the_newest_run_of_the_name(graph: str, launched: list[dict[str, Any]]) -> None:
    for start in ("2025-01-01_00-00-00", "2025-01-02_00-00-00"):
        run = Path("runs", "copy", start)
        run.mkdir(parents=True)
        (run / "graph.yaml").write_text(GRAPH)
    assert main(["run", graph, "--resume"]) == 1
    assert main(["run", graph, "--resume", "--output", "out"]) == 1
    assert [call["resume"] for call in launched] == [
        Path("runs", "copy", "2025-01-02_00-00-00"),
        Path("out"),
    ]


def test_an_unknown_command_or_option_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chekc", "g.yaml"]) == 2
    assert main(["check", "g.yaml", "--nosuch"]) == 2


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("headrace ")


def imported_by(arguments: list[str], folder: Path) -> set[str]:
    script = (
        "import sys; from headrace.dataflow.cli import main; code = main(sys.argv[1:]); "
        "print(code, *sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    code, *modules = done.stderr.split()
    assert code == "0"
    return {module.partition(".")[0] for module in modules}


def test_help_loads_nothing_that_takes_time(tmp_path: Path) -> None:
    assert not imported_by(["--help"], tmp_path) & {
        "torch",
        "ray",
        "transformers",
        "pyarrow",
        "zmq",
        "omegaconf",
    }


@pytest.mark.parametrize("command", ["check", "plan", "draw"])
def test_a_graph_is_read_without_torch_ray_or_vllm(command: str, tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(GRAPH)
    assert not imported_by([command, "g.yaml"], tmp_path) & {"torch", "ray", "vllm", "transformers"}
