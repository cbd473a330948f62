"""Throughput of a live run as its rollouts are scaled 1 -> 2 -> 3 -> 1, by the fake engine.

    python bench/scaling.py [--seconds 30] [--runtime local]

An answer of 8 tokens takes 1.6 s, and a replica makes 4 at once: 2.5 a second. The last line is one
JSON object: answers per second that were trained on, by turn; under `ratios`, against the first turn, and
against what the engine can.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.dataflow.control.client import Control

TURNS = (1, 2, 3, 1)
TOKENS, SECONDS_PER_TOKEN, AT_ONCE = 8, 0.2, 4
CAN = AT_ONCE / (TOKENS * SECONDS_PER_TOKEN)
"""Answers per second of one replica."""
ROWS_PER_STEP = 8

GRAPH = f"""\
name: scaling
staleness: 8
steps: 100000
policies:
  actor: {{model: tiny-copier}}
nodes:
  prompts: {{kind: source, dataset: copy, samples_per_prompt: 2, threads: 1}}
  answers: {{kind: rollout, inputs: [prompts], policy: actor, engine: fake, max_new_tokens: {TOKENS},
            threads: 1, max_concurrent: {AT_ONCE},
            fake: {{answer: random, mean_tokens: {TOKENS}, seconds_per_token: {SECONDS_PER_TOKEN}}}}}
  scores: {{kind: reward, inputs: [answers], verifier: copy}}
  learn: {{kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo, threads: 1,
          prompts_per_step: {ROWS_PER_STEP // 2}}}
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0, help="of each turn")
    parser.add_argument("--runtime", choices=("local", "ray"), default="local")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, launched(Path(folder), told.runtime) as control:
        answers = [measured(control, replicas, told.seconds) for replicas in TURNS]
    print(json.dumps(figures(answers)))


def figures(answers: list[float]) -> dict[str, Any]:
    """`answers`: per second, by turn."""
    turns = list(zip(TURNS, answers, strict=True))
    return {
        "replicas": list(TURNS),
        "answers_per_second": [round(each, 2) for each in answers],
        "ratios": {
            "against_one_replica": [round(each / answers[0], 2) for each in answers],
            "against_the_engine": [round(each / (replicas * CAN), 2) for replicas, each in turns],
        },
    }


def measured(control: Control, replicas: int, seconds: float) -> float:
    """Answers trained on per second, once the service has so many replicas and a step has been made."""
    control.post("/v1/services/answers/scale", replicas=replicas, why="a turn of the benchmark")
    time.sleep(seconds / 4)
    began, before = time.monotonic(), steps(control)
    time.sleep(seconds)
    return ROWS_PER_STEP * (steps(control) - before) / (time.monotonic() - began)


def steps(control: Control) -> int:
    return int(control.get("/v1/run")["steps"]["actor"]["done"])


@contextmanager
def launched(folder: Path, runtime: str) -> Iterator[Control]:
    """A run of GRAPH that has made a step."""
    file, directory = folder / "scaling.yaml", folder / "run"
    file.write_text(GRAPH)
    command = ["run", str(file), f"runtime={runtime}", "--output", str(directory)]
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace.dataflow.cli", *command], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        if not any(line.startswith("step ") for line in iter(process.stdout.readline, "")):
            raise SystemExit("the run ended before its first step")
        control = Control(directory)
        yield control
        control.post("/v1/stop", why="the benchmark has ended")
        process.communicate()
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


if __name__ == "__main__":
    main()
