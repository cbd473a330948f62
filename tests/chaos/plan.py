"""What is to go wrong in one run, drawn from a seed.

Kinds take turns by the seed, so that every so many runs have each of them; what else goes wrong in the same
run, where and when is drawn.
"""

import random
from dataclasses import dataclass

REPLICAS = {"answers": ("answers/0", "answers/1"), "others": ("scores/0", "prompts/0", "learn/0")}
ALL = (*REPLICAS["answers"], *REPLICAS["others"])
TARGETS: dict[str, tuple[str, ...]] = {
    "kill": (*ALL, "queue"),
    "hang": ALL,
    "slow": ALL,
    "error": ("answers/0", "answers/1", "scores/0", "learn/0"),
    "corrupt": ("learn/0", "queue"),
    "full-disk": ("learn/0", "queue"),
}
"""By kind of fault."""
IN_ONE_PROCESS = tuple(kind for kind in TARGETS if kind != "kill")
"""Kinds that `runtime: local` has."""
MORE = 0.3
"""Share of runs in which two more things go wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    after_step: int
    target: str
    kind: str


def plan(seed: int, *, steps: int, kinds: tuple[str, ...] = tuple(TARGETS)) -> list[Disturbance]:
    """By the step after which they come; several may come after one."""
    drawn = random.Random(seed)
    chosen = [kinds[seed % len(kinds)]]
    if drawn.random() < MORE:
        chosen += drawn.choices(kinds, k=2)
    found = [
        Disturbance(
            after_step=drawn.randint(1, max(1, steps // 2)), target=drawn.choice(TARGETS[kind]), kind=kind
        )
        for kind in chosen
    ]
    return sorted(found, key=lambda each: each.after_step)
