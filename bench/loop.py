"""Seconds per step of Headrace, of TRL's GRPOTrainer and of a bare loop: same work, same two cores, in turn.

    python bench/loop.py --work both --rounds 2

Prints a table, and as the last line one JSON object with every figure; `ratios` holds Headrace's seconds per
step over the other side's, at staleness 0 and 1. A side that did other work than asked ends the benchmark.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import countdown
from sides import BENCH, Bare, Headrace, Setting, Side, SideFailed, Trl, confine, peer_environment
from works import WORKS, Figures, Work, require_same_lengths

ROOT = BENCH.parent
OURS = ("staleness_0", "staleness_1")
SIDES = ("trl", "bare", *OURS)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", choices=[*WORKS, "both"], default="copy")
    parser.add_argument("--steps", type=int, help="steps of each run; default: copy 100, lognormal 15")
    parser.add_argument("--prompts", type=int, help="prompts per step; default: copy 32, lognormal 16")
    parser.add_argument(
        "--rounds", type=int, default=1, help="times that all sides are run, one after another"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first round; each further one adds 1")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--peers", type=Path, default=ROOT.parent / "shared" / "bench" / "peers",
                        help="folder with trl_grpo.py")  # fmt: skip
    parser.add_argument("--peer-python", type=Path,
                        help="Python with TRL; default: an environment made under .venv-peers")  # fmt: skip
    parser.add_argument("--output", type=Path, help="folder for logs and runs; default: runs/bench/<time>")
    return parser.parse_args()


def prepare(work: Work, folder: Path, seed: int) -> Path:
    """The model's folder and, for the log-normal work, its prompts."""
    subprocess.run([sys.executable, BENCH / "models.py", work.name, folder, "--seed", str(seed)], check=True)
    if work.name == "lognormal":
        with (folder / "prompts.jsonl").open("w") as lines:
            for prompt in countdown.prompts(work.prompts * work.steps, seed):
                lines.write(json.dumps({"prompt": prompt}) + "\n")
    return folder


def make_side(name: str, args: argparse.Namespace) -> Side:
    if name == "bare":
        return Bare()
    if name != "trl":
        return Headrace(staleness=int(name.removeprefix("staleness_")))
    if not (args.peers / "trl_grpo.py").is_file():
        raise FileNotFoundError(
            f"no trl_grpo.py in {args.peers}: pass its folder as --peers, or leave trl out of --sides"
        )
    python = (
        args.peer_python.absolute() if args.peer_python else peer_environment(ROOT / ".venv-peers" / "trl")
    )
    return Trl(python=python, peers=args.peers.resolve())


def measure(
    work: Work, sides: Sequence[Side], args: argparse.Namespace, folder: Path
) -> dict[str, list[Figures]]:
    """Runs every side once per round, in turn."""
    figures: dict[str, list[Figures]] = {side.name: [] for side in sides}
    for seed in range(args.seed, args.seed + args.rounds):
        model = prepare(work, folder / f"model-{work.name}-{seed}", seed)
        for side in sides:
            place = folder / f"{work.name}-{seed}-{side.name}"
            print(f"{work.name}, seed {seed}: {side.name} ...", file=sys.stderr, flush=True)
            one = side.run(Setting(work=work, seed=seed, model=model, folder=place))
            require_same_lengths(work, side.name, one)
            figures[side.name].append(one)
    return figures


def seconds(rounds: Sequence[Figures]) -> float:
    return statistics.median(one.seconds_per_step for one in rounds)


def ratios(work: Work, figures: dict[str, list[Figures]]) -> dict[str, float]:
    """Ours over theirs: the median over rounds of each side's median seconds per step."""
    return {
        f"{work.ratio_prefix}{ours}_vs_{theirs}": seconds(figures[ours]) / seconds(figures[theirs])
        for theirs in ("trl", "bare")
        for ours in OURS
        if ours in figures and theirs in figures
    }


def table(work: Work, figures: dict[str, list[Figures]]) -> str:
    lines = [
        f"{work.name}: {work.prompts} prompts x {work.samples} samples, answers up to {work.longest} tokens, "
        f"{work.steps} steps",
        f"{'side':<14}{'s/step':>9}{'each round':>26}{'tokens/s':>11}{'exact, last 5':>15}",
    ]
    for name, rounds in figures.items():
        each = " ".join(f"{one.seconds_per_step:.3f}" for one in rounds)
        tokens = statistics.median(one.tokens_per_s for one in rounds)
        exact = statistics.fmean(one.exact_last5 for one in rounds)
        lines.append(f"{name:<14}{seconds(rounds):>9.3f}{each:>26}{tokens:>11.0f}{exact:>15.2f}")
    return "\n".join(lines)


def main() -> int:
    args = arguments()
    folder = (args.output or ROOT / "runs" / "bench" / time.strftime("%Y%m%d-%H%M%S")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    cores = confine()
    result: dict[str, Any] = {"cores": cores, "machine": platform.platform(), "works": {}, "ratios": {}}
    try:
        sides = [make_side(name, args) for name in args.sides]
        for name in WORKS if args.work == "both" else [args.work]:
            asked = {key: value for key in ("steps", "prompts") if (value := getattr(args, key)) is not None}
            work = replace(WORKS[name], **asked)
            figures = measure(work, sides, args, folder)
            print(table(work, figures), flush=True)
            rounds = {side: [asdict(one) for one in runs] for side, runs in figures.items()}
            result["works"][name] = {"work": asdict(work), "sides": rounds}
            result["ratios"] |= ratios(work, figures)
    except (SideFailed, ValueError, FileNotFoundError) as error:
        print(f"loop.py: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
