"""How much two torch processes of two threads each disturb one another on two cores, by OpenMP's way to wait.

    python bench/spin_wait.py

A worker's unit of work is one forward and backward pass of a small MLP. `alternate` lets two workers take
turns, so that one idles while the other works; `together` runs both at once. The figures are seconds per unit
over those of one worker alone at libgomp's default, best of the rounds: 1 is ideal for `alternate`, 2 for
`together`. The settings take turns, so that a change of the machine's load meets all of them.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from typing import IO

from sides import confine

SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "passive": {"OMP_WAIT_POLICY": "PASSIVE"},
    "spin_1000": {"GOMP_SPINCOUNT": "1000"},
    "spin_10000": {"GOMP_SPINCOUNT": "10000"},
    "one_thread": {"OMP_NUM_THREADS": "1"},
}
UNITS = 20


def work() -> None:
    """The worker: runs as many units as each line of input asks, and answers with the seconds taken."""
    import torch

    torch.manual_seed(0)
    rows = torch.randn(256, 128)
    model = torch.nn.Sequential(
        *(torch.nn.Linear(128, 128) if i % 2 else torch.nn.SiLU() for i in range(1, 17))
    )

    for line in sys.stdin:
        begun = time.perf_counter()
        for _ in range(int(line)):
            model(rows).square().mean().backward()
            model.zero_grad()
        print(time.perf_counter() - begun, flush=True)


class Worker:
    """A child process that works when asked: `start(n)`, then `finish()` for the seconds it took."""

    def __init__(self, setting: dict[str, str]) -> None:
        cleared = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "GOMP_"))}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            env={**cleared, "OMP_NUM_THREADS": "2", **setting},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, units: int) -> None:
        stream = piped(self._process.stdin)
        stream.write(f"{units}\n")
        stream.flush()

    def finish(self) -> float:
        return float(piped(self._process.stdout).readline())

    def close(self) -> None:
        piped(self._process.stdin).close()
        self._process.wait()
        piped(self._process.stdout).close()


def piped(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise RuntimeError("the worker was started without pipes")
    return stream


def alone(one: Worker) -> float:
    one.start(UNITS)
    return one.finish() / UNITS


def alternate(one: Worker, other: Worker) -> float:
    total = 0.0
    for turn in range(UNITS):
        worker = other if turn % 2 else one
        worker.start(1)
        total += worker.finish()
    return total / UNITS


def together(one: Worker, other: Worker) -> float:
    one.start(UNITS)
    other.start(UNITS)
    return (one.finish() + other.finish()) / 2 / UNITS


def compare(rounds: int) -> dict[str, dict[str, float]]:
    """Seconds per unit by setting and mode: the best of the rounds."""
    pairs = {name: (Worker(setting), Worker(setting)) for name, setting in SETTINGS.items()}
    for pair in pairs.values():
        for worker in pair:
            alone(worker)
    best: dict[str, dict[str, float]] = {name: {} for name in SETTINGS}
    for _ in range(rounds):
        for name, pair in pairs.items():
            seen = {"alone": alone(pair[0]), "alternate": alternate(*pair), "together": together(*pair)}
            best[name] = {mode: min(value, best[name].get(mode, value)) for mode, value in seen.items()}
    for pair in pairs.values():
        for worker in pair:
            worker.close()
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work()
        return
    confine()
    best = compare(args.rounds)
    base = best["default"]["alone"]
    ratios = {f"{name}_{mode}": value / base for name, modes in best.items() for mode, value in modes.items()}
    print(f"{'setting':<14}{'alone':>10}{'alternate':>12}{'together':>11}   (1 = {1e3 * base:.2f} ms)")
    for name in best:
        row = [ratios[f"{name}_{mode}"] for mode in ("alone", "alternate", "together")]
        print(f"{name:<14}{row[0]:>10.2f}{row[1]:>12.2f}{row[2]:>11.2f}")
    print(json.dumps({"seconds_per_unit": best, "ratios": ratios}))


if __name__ == "__main__":
    main()
