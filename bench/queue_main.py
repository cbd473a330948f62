"""The queue benchmark's run: both sides once per turn, their ratios against the targets."""

import argparse
import json
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from sides import BENCH, SideFailed, call, confine, peer_environment

ROOT = BENCH.parent
SUITES = ("kv", "latency", "stream", "columns", "meta", "own")
PACKAGES = ("torch==2.13.0", "TransferQueue==0.1.11")
TARGETS = {
    "put_1KiB": 10, "get_1KiB": 10, "put_64KiB": 5, "get_64KiB": 5, "put_1MiB": 5, "get_1MiB": 5,
    "one_row_put_1KiB": 8, "stream_1KiB": 12, "stream_1MiB": 5, "relay_1KiB": 10, "relay_64KiB": 10,
    "own_put": 3, "own_get": 3,
}  # fmt: skip
"""Ratio to reach, by name."""
Figures = dict[str, Any]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Our transfer queue and the published one, in turn.")
    parser.add_argument(
        "--turns", type=int, default=1, help="times that both sides are run, one after another"
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each case within one run")
    parser.add_argument("--suites", nargs="+", choices=SUITES, default=list(SUITES))
    parser.add_argument("--peers", type=Path, default=ROOT.parent / "shared" / "bench" / "peers",
                        help="folder with transferqueue_bench.py")  # fmt: skip
    parser.add_argument("--peer-python", type=Path,
                        help="Python with TransferQueue; default: one made under .venv-peers")  # fmt: skip
    parser.add_argument("--no-peer", action="store_true", help="ours alone, without ratios to the peer")
    parser.add_argument("--output", type=Path, help="folder for logs; default: runs/bench/queue-<time>")
    return parser.parse_args()


def ours(args: argparse.Namespace, folder: Path) -> Figures:
    """Figures of one run of ours."""
    out = folder / "ours.json"
    suites = ",".join(args.suites)
    call(
        [
            sys.executable,
            BENCH / "queue_ours.py",
            "--suite",
            suites,
            "--rounds",
            str(args.rounds),
            "--out",
            out,
        ],
        folder,
        "ours.txt",
    )
    return json.loads(out.read_text())


def peer(args: argparse.Namespace, folder: Path) -> Figures:
    """Figures of one run of the peer, in its own environment."""
    script = args.peers / "transferqueue_bench.py"
    if not script.is_file():
        raise FileNotFoundError(f"no transferqueue_bench.py in {args.peers}: pass its folder as --peers")
    python = args.peer_python or peer_environment(ROOT / ".venv-peers" / "transferqueue", PACKAGES)
    out = folder / "peer.json"
    suites = ",".join(args.suites)
    call(
        [python.absolute(), script.resolve(), "--suite", suites, "--rounds", str(args.rounds), "--out", out],
        folder,
        "peer.txt",
    )
    return json.loads(out.read_text())


def ratios(mine: Figures, theirs: Figures) -> dict[str, float]:
    """Ours over the peer's for each case that both have; above 1 ours is better."""
    found: dict[str, float] = {}
    for label in mine.get("kv", {}):
        for side in ("put", "get"):
            best = max(theirs["kv"][label][side]["samples_per_s"], _native(theirs, label, side))
            found[f"{side}_{label}"] = mine["kv"][label][side]["samples_per_s"] / best
    for label, figures in mine.get("latency", {}).items():
        quickest = min(theirs["latency"][label][kind]["p50_ms"] for kind in ("put", "kv_put"))
        found[f"one_row_put_{label}"] = quickest / figures["put"]["p50_ms"]
    for suite, name in (("stream", "stream"), ("columns", "relay")):
        for label, figures in (mine.get(suite, {}) if suite in theirs else {}).items():
            found[f"{name}_{label}"] = figures["samples_per_s"] / theirs[suite][label]["samples_per_s"]
    for side in ("put", "get"):
        cases = [
            figures[side]["samples_per_s"] / theirs["own"][label][side]["samples_per_s"]
            for label, figures in mine.get("own", {}).items()
        ]
        if cases:
            found[f"own_{side}"] = min(cases)
    return found


def _native(theirs: Figures, label: str, side: str) -> float:
    kinds = {"put": "put", "get": "get_data"}
    return theirs["native"][label][kinds[side]]["samples_per_s"] if "native" in theirs else 0.0


def own_terms(mine: Figures) -> dict[str, float]:
    """What ours is held to without the peer."""
    found = {"start_s": mine["start_s"]}
    if "latency" in mine:
        found["one_row_put_p50_ms"] = mine["latency"]["1KiB"]["put"]["p50_ms"]
    if "meta" in mine:
        few, many = (mine["meta"][rows]["lease_8"]["p50_ms"] for rows in ("1000", "100000"))
        found["lease_100k_over_1k_rows"] = many / few
    if "kv" in mine:
        large = mine["kv"]["1MiB"]
        found["get_1MiB_over_copy"] = large["get"]["MB_per_s"] / large["copy"]["MB_per_s"]
    return found


def medians(turns: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(turn[name] for turn in turns) for name in turns[0]} if turns else {}


def table(measured: dict[str, float], terms: dict[str, float]) -> str:
    lines = [f"{'case':<26}{'ratio':>9}{'target':>9}"]
    for name, ratio in measured.items():
        target = TARGETS.get(name)
        missed = "  missed" if target is not None and ratio < target else ""
        lines.append(f"{name:<26}{ratio:>9.2f}{target if target is not None else '':>9}{missed}")
    return "\n".join([*lines, *(f"{name:<26}{value:>9.3f}" for name, value in terms.items())])


def main() -> int:
    args = arguments()
    folder = (args.output or ROOT / "runs" / "bench" / time.strftime("queue-%Y%m%d-%H%M%S")).resolve()
    cores = confine()
    turns: list[dict[str, Figures]] = []
    try:
        for turn in range(args.turns):
            place = folder / f"turn-{turn}"
            print(f"turn {turn}: ours ...", file=sys.stderr, flush=True)
            sides = {"ours": ours(args, place)}
            if not args.no_peer:
                print(f"turn {turn}: TransferQueue ...", file=sys.stderr, flush=True)
                sides["peer"] = peer(args, place)
            turns.append(sides)
    except (SideFailed, FileNotFoundError) as error:
        print(f"queue.py: {error}", file=sys.stderr)
        return 1
    measured = medians([ratios(turn["ours"], turn["peer"]) for turn in turns if "peer" in turn])
    terms = medians([own_terms(turn["ours"]) for turn in turns])
    print(table(measured, terms), flush=True)
    print(
        json.dumps(
            {"cores": cores, "machine": platform.platform(), "turns": turns, "ratios": measured | terms}
        )
    )
    return 0
