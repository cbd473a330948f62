"""The sides of the loop benchmark: how each is started and where its figures are read.

Each side is a child process, alone while it runs, that inherits the caller's two cores and its environment.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import meter
import yaml
from works import LETTERS, Figures, Work, from_marks

BENCH = Path(__file__).resolve().parent
THREADS = 2
TIMEOUT_S = 3600.0
SCORED_BY = {"lognormal": "countdown", "smollm2": "sums"}
"""Modules of this folder with the `score` of a work whose prompts lie beside its model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One run of one side."""

    work: Work
    seed: int
    model: Path
    """Hugging Face folder with the work's initial weights and tokenizer."""
    folder: Path
    """Where this run leaves its files."""


class Side(Protocol):
    @property
    def name(self) -> str: ...

    def run(self, setting: Setting) -> Figures: ...


class SideFailed(RuntimeError):
    """A side's process ended with an error; the message carries the end of its log."""


def call(command: Sequence[str | Path], folder: Path, log_name: str = "log.txt") -> meter.Done:
    """Runs one side's command in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / log_name
    words = [str(word) for word in command]
    with log.open("w") as errors:
        done = meter.run(words, folder=folder, errors=errors, timeout_s=TIMEOUT_S)
    if done.returncode != 0:
        tail = "\n".join((done.output + log.read_text()).splitlines()[-20:])
        raise SideFailed(f"`{' '.join(words)}` ended with {done.returncode}; its last lines ({log}):\n{tail}")
    return done


def flags(setting: Setting) -> list[str | Path]:
    """The arguments that `bare_loop.py` and `peer_trl.py` share."""
    work = setting.work
    values = {
        "model": setting.model,
        "steps": work.steps,
        "prompts": work.prompts,
        "samples": work.samples,
        "seed": setting.seed,
        "threads": THREADS,
        "lr": work.lr,
        "longest": work.longest,
        "out": setting.folder / "figures.json",
    }
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]


def read_figures(setting: Setting, done: meter.Done) -> Figures:
    told = json.loads((setting.folder / "figures.json").read_text())
    figures = from_marks(told["marks"], told["tokens"], told["exact"], setting.work.warmup)
    return replace(figures, cpu_s_per_step=done.cpu_s_per_step(setting.work.warmup))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trl:
    """TRL's GRPOTrainer, in its own environment: the peer's script for copy, ours for the other works."""

    python: Path
    peers: Path
    name: str = "trl"

    def run(self, setting: Setting) -> Figures:
        if setting.work.name in SCORED_BY:
            rows = setting.work.rows or setting.work.prompts * setting.work.samples
            command = [self.python, BENCH / "peer_trl.py", *flags(setting), "--rows", str(rows)]
            done = call([*command, "--scored-by", SCORED_BY[setting.work.name]], setting.folder)
            return read_figures(setting, done)
        work, out = setting.work, setting.folder / "figures.json"
        call(
            [self.python, self.peers / "trl_grpo.py", "--letters", str(LETTERS), "--steps", str(work.steps),
             "--prompts", str(work.prompts), "--samples", str(work.samples), "--seed", str(setting.seed),
             "--threads", str(THREADS), "--out", out],
            setting.folder,
        )  # fmt: skip
        told = json.loads(out.read_text())
        return Figures(
            seconds_per_step=told["seconds_per_step"],
            mean_seconds_per_step=None,
            tokens_per_s=told["completion_tokens_per_s"],
            tokens_per_step=told["completion_tokens_per_s"] * told["seconds_per_step"],
            exact_last5=told["exact_last5"],
            details=told,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """The same loop in one process, without an engine."""

    name: str = "bare"

    def run(self, setting: Setting) -> Figures:
        work = ["--work", setting.work.name, "--letters", str(LETTERS)]
        done = call([sys.executable, BENCH / "bare_loop.py", *work, *flags(setting)], setting.folder)
        return read_figures(setting, done)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headrace:
    """`headrace run` of a dataflow with two things set: the staleness and the engine."""

    staleness: int
    engine: str = "torch"

    @property
    def name(self) -> str:
        engine = "" if self.engine == "torch" else f"{self.engine}_"
        return f"{engine}staleness_{self.staleness}"

    def run(self, setting: Setting) -> Figures:
        setting.folder.mkdir(parents=True, exist_ok=True)
        graph, run_dir = setting.folder / "graph.yaml", setting.folder / "run"
        graph.write_text(yaml.safe_dump(dataflow(setting, self.staleness, self.engine), sort_keys=False))
        command = Path(sys.executable).with_name("headrace")
        done = call([command, "run", graph, "--output", run_dir], setting.folder)
        told = call([command, "report", run_dir, "--json"], setting.folder, "report.txt")
        report = json.loads(told.output.splitlines()[-1])
        require_whole(report, setting.work, self.staleness)
        with (run_dir / "metrics.jsonl").open() as lines:
            steps = [row for row in map(json.loads, lines) if "perf/step_time" in row]
        figures = from_marks(
            [row["time"] for row in steps],
            [row["perf/tokens_per_s"] * row["perf/step_time"] for row in steps],
            [row.get("reward/exact", row["reward/mean"]) for row in steps],
            setting.work.warmup,
        )
        figures.details["report"] = report
        return replace(figures, cpu_s_per_step=done.cpu_s_per_step(setting.work.warmup))


def require_whole(report: dict[str, Any], work: Work, staleness: int) -> None:
    """Raises ValueError where a run trained less than its work, or staler than its bound."""
    samples = work.steps * work.prompts * work.samples
    wanted = {"steps": work.steps, "samples_trained": samples, "samples_lost": 0, "samples_duplicated": 0,
              "staleness_violations": 0}  # fmt: skip
    wrong = {key: report[key] for key, value in wanted.items() if report[key] != value}
    if wrong or report["staleness_max"] > staleness:
        raise ValueError(
            f"headrace at staleness {staleness} reports {wrong}, staleness_max {report['staleness_max']}; "
            f"the work asks for {wanted}: no ratio is given for a run that did other work"
        )


def dataflow(setting: Setting, staleness: int, engine: str) -> dict[str, Any]:
    """The graph of one run, as `headrace run` reads it."""
    work = setting.work
    if work.name == "copy":
        dataset: dict[str, Any] = {"kind": "copy", "letters": LETTERS}
        verifier: dict[str, Any] = {"kind": "copy"}
    else:
        dataset = {"kind": "jsonl", "path": str(setting.model / "prompts.jsonl")}
        verifier = {"kind": "python", "function": f"{BENCH / SCORED_BY[work.name]}.py:score"}
    return {
        "name": f"bench-{work.name}",
        "seed": setting.seed,
        "staleness": staleness,
        "steps": work.steps,
        "policies": {
            "actor": {"model": str(setting.model), "optimizer": {"lr": work.lr, "betas": [0.9, 0.95]}}
        },
        "nodes": {
            "prompts": {"kind": "source", "dataset": dataset, "samples_per_prompt": work.samples,
                        "shuffle": work.name == "copy"},
            "answers": {"kind": "rollout", "inputs": ["prompts"], "policy": "actor", "engine": engine,
                        "max_new_tokens": work.longest, "threads": rollout_threads(work, staleness)},
            "scores": {"kind": "reward", "inputs": ["answers"], "verifier": verifier},
            "learn": {"kind": "trainer", "inputs": ["answers", "scores"], "policy": "actor",
                      "algorithm": {"kind": "grpo", "clip_low": 0.2, "clip_high": 0.28},
                      "prompts_per_step": work.prompts, "checkpoint_every": 0},
        },
    }  # fmt: skip


TRL_PACKAGES = ("torch==2.13.0", "trl==1.16.0")


def rollout_threads(work: Work, staleness: int) -> int | None:
    """Both cores where all answers end together, so that generation and training take turns; else the
    planner's own choice."""
    return THREADS if work.name == "copy" and staleness == 0 else None


def peer_environment(folder: Path, packages: Sequence[str] = TRL_PACKAGES) -> Path:
    """The Python of an environment with `packages`, made in `folder` where it is missing."""
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder.parent / ".gitignore").write_text("*\n")
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        for package in packages:
            print(f"installing {package} into {folder}", file=sys.stderr, flush=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", package], check=True)
        (folder / "ready").touch()
    return python


def confine(cores: int = 2) -> list[int]:
    """Confines this process and all its children to the first `cores` cores it may use; returns them."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < cores:
        raise RuntimeError(f"the benchmark needs {cores} cores, this process may use {allowed}")
    os.sched_setaffinity(0, allowed[:cores])
    return allowed[:cores]
