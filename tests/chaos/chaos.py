"""Many runs of a small task, each with something going wrong: what it costs, and whether anything is lost.

    python -m tests.chaos.chaos --runs 100

Each must end as the undisturbed run does: the same rows trained on, each once, none beyond its staleness, and
no process, socket or file left. Prints a line for each run, and as the last one JSON object with the seconds
lost by kind of fault and, under `ratios`, each median over that of a full restart of the job. Exit code 1
where a run did not end as it must.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.chaos.disturbed import Course, course, restarted, retaken
from tests.chaos.plan import IN_ONE_PROCESS, TARGETS, Disturbance, plan
from tests.chaos.task import graph, trained, weights


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100, help="disturbed runs")
    parser.add_argument("--seed", type=int, default=0, help="of the first; each further one adds 1")
    parser.add_argument("--steps", type=int, default=24, help="of each run")
    parser.add_argument("--runtime", choices=["ray", "local"], default="ray")
    parser.add_argument("--stalled-s", type=float, default=8.0, help="until a replica counts as wedged")
    parser.add_argument("--restarts", type=int, default=3, help="full restarts, for comparison")
    parser.add_argument("--trainer-kills", type=int, default=20, help="runs at staleness 0 with one each")
    parser.add_argument("--output", type=Path, help="folder of the runs; default: a temporary one")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    folder = args.output or Path(tempfile.mkdtemp(prefix="chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "chaos.yaml"
    file.write_text(graph(steps=args.steps, runtime=args.runtime, stalled_s=args.stalled_s))
    undisturbed = course(file, folder / "undisturbed", (), steps=args.steps, due=None)
    due = trained(folder / "undisturbed")
    kinds = tuple(TARGETS) if args.runtime == "ray" else IN_ONE_PROCESS
    courses = [undisturbed]
    for seed in range(args.seed, args.seed + args.runs):
        planned = plan(seed, steps=args.steps, kinds=kinds)
        found = course(file, folder / f"run-{seed}", planned, steps=args.steps, due=due)
        courses.append(found)
        told = ", ".join(f"{each.kind} {each.target} after {each.after_step}" for each in planned)
        wrong = "".join(f"; WRONG: {each}" for each in found.wrong)
        print(f"seed {seed}: {told}: {found.lost_s:.1f} s lost{wrong}", flush=True)
    killed = trainer_killed(args, folder, due) if args.runtime == "ray" else []
    restarts = [
        restarted(file, folder / f"restart-{index}", after_step=args.steps // 2)[0]
        for index in range(args.restarts)
    ]
    retaken_steps = sum(retaken(folder / f"killed-{seed}") for seed in range(len(killed)))
    told = report(courses[1:], undisturbed, restarts)
    print(
        json.dumps(
            {
                **told,
                "trainer_kills": len(killed),
                "steps_taken_again": retaken_steps,
                "wrong": [*told["wrong"], *(wrong for each in killed for wrong in each.wrong)],
            }
        )
    )
    return int(any(each.wrong for each in (*courses, *killed)))


def trainer_killed(args: argparse.Namespace, folder: Path, due: Sequence[int]) -> list[Course]:
    """Deterministic runs at staleness 0 whose trainer is killed at a step that is drawn: each ends with the
    weights of the undisturbed one, byte for byte."""
    file = folder / "synchronous.yaml"
    text = graph(steps=args.steps, runtime="ray", stalled_s=args.stalled_s, staleness=0, deterministic=True)
    file.write_text(text)
    whole = folder / "synchronous"
    course(file, whole, (), steps=args.steps, due=due)
    found: list[Course] = []
    for seed in range(args.trainer_kills):
        after = random.Random(seed).randint(1, args.steps - 2)
        planned = [Disturbance(after_step=after, target="learn/0", kind="kill")]
        directory = folder / f"killed-{seed}"
        killed = course(file, directory, planned, steps=args.steps, due=due)
        if not killed.wrong and weights(directory, args.steps) != weights(whole, args.steps):
            killed = replace(killed, wrong=("the weights are not those of the undisturbed run",))
        found.append(killed)
        wrong = "".join(f"; WRONG: {each}" for each in found[-1].wrong)
        print(f"trainer killed after {after}{wrong}", flush=True)
    return found


def report(courses: Sequence[Course], undisturbed: Course, restarts: Sequence[float]) -> dict[str, Any]:
    """Of runs in which one thing went wrong by its kind, of the others as `several`."""
    by_kind: dict[str, list[float]] = defaultdict(list)
    for each in courses:
        if each.kinds:
            by_kind[each.kinds[0] if len(each.kinds) == 1 else "several"].append(each.lost_s)
    lost = {kind: _figures(seconds) for kind, seconds in sorted(by_kind.items())}
    restart = _figures(restarts) if restarts else None
    return {
        "runs": len(courses),
        "faults": sum(len(each.kinds) for each in courses),
        "wrong": [wrong for each in (undisturbed, *courses) for wrong in each.wrong],
        "undisturbed_lost_s": undisturbed.lost_s,
        "lost_s": lost,
        "restart_s": restart,
        "ratios": {} if not restart else {k: v["median"] / restart["median"] for k, v in lost.items()},
    }


def _figures(seconds: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(seconds), "worst": max(seconds), "runs": float(len(seconds))}


if __name__ == "__main__":
    sys.exit(main())
