"""Whole runs of the quick-start task, rollout and trainer on shares of one card, by the command line."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.gpu_check.path import Figures

STEPS = 120
SHARE = 0.45
GAIN = 0.1
"""What the mean reward of the last steps is to be above that of the first."""


def torch(gpus: float) -> Figures:
    return _learned(gpus, ())


def vllm_megatron(gpus: float) -> Figures:
    utilization = ("answers.vllm={gpu_memory_utilization: 0.3}",) if gpus else ()
    return _learned(gpus, ("answers.engine=vllm", "learn.backend=megatron", *utilization))


def _learned(gpus: float, further: tuple[str, ...]) -> Figures:
    shares = (f"answers.gpus={SHARE}", f"learn.gpus={SHARE}") if gpus else ()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        asked = ("grpo_copy_cpu", f"steps={STEPS}", *shares, *further)
        ended = subprocess.run(
            [sys.executable, "-m", "headrace.dataflow.cli", "run", *asked, "--output", str(run)],
            capture_output=True,
            text=True,
        )
        if ended.returncode:
            raise AssertionError(f"the run ended with code {ended.returncode}: {ended.stderr.strip()[-500:]}")
        found = json.loads((run / "summary.json").read_text())
        dtype = json.loads((run / "plan.json").read_text())["services"][0]["policy"]["dtype"]
    if found["steps"] != STEPS or found["staleness_violations"]:
        raise AssertionError(f"{found['steps']} of {STEPS} steps, {found['staleness_violations']} violations")
    if dtype != ("bfloat16" if gpus else "float32"):
        raise AssertionError(f"the policy ran in {dtype}")
    first, last = found["reward_first"], found["reward_last"]
    if not last > first + GAIN:
        raise AssertionError(f"the mean reward went from {first:.3f} to {last:.3f}; nothing was learned")
    return {"reward_first": first, "reward_last": last, "tokens_per_s": found["tokens_per_s"]}
