"""Tries the paths one after another; a line for each, and one JSON object as the last line.

    bench/gpu_check.sh                        on the first card, in 8 minutes at most
    bench/gpu_check.sh --device cpu           the same functions on the CPU, which takes what it takes
    bench/gpu_check.sh --only torch_engine weights

Exit code 1 where a path failed.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path as File

from bench.gpu_check.paths import PATHS
from bench.gpu_check.verdicts import Outcome, run

TOTAL_S = {"cuda": 470.0, "cpu": float("inf")}
PATIENCE = {"cuda": 1.0, "cpu": 5.0}
"""What the limits of the paths are multiplied by."""


def main() -> int:
    asked = parse()
    folder = File(tempfile.mkdtemp(prefix="headrace-gpu-check-"))
    deadline = time.monotonic() + TOTAL_S[asked.device]
    outcomes: list[Outcome] = []
    for path in PATHS:
        if asked.only and path.name not in asked.only:
            continue
        left = deadline - time.monotonic()
        if left > 0:
            found = run(path, asked.device, folder, min(path.limit_s * PATIENCE[asked.device], left))
        else:
            found = Outcome(path=path.name, verdict="FAIL", seconds=0.0, reason="no time was left for it")
        print(found, flush=True)
        outcomes.append(found)
    print(json.dumps(summary(asked.device, folder, outcomes)))
    return int(any(each.verdict == "FAIL" for each in outcomes))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpu_check.sh", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", choices=tuple(TOTAL_S), default="cuda")
    parser.add_argument("--only", nargs="+", choices=[path.name for path in PATHS], metavar="PATH")
    return parser.parse_args()


def summary(device: str, folder: File, outcomes: list[Outcome]) -> dict[str, object]:
    by_path = {
        each.path: {"verdict": each.verdict, "seconds": round(each.seconds, 1), "reason": each.reason}
        for each in outcomes
    }
    figures = {f"{each.path}_{name}": value for each in outcomes for name, value in each.figures.items()}
    ratios = {name: value for name, value in figures.items() if "_over_" in name}
    return {"device": device, "logs": str(folder), "paths": by_path, "figures": figures, "ratios": ratios}


if __name__ == "__main__":
    sys.exit(main())
