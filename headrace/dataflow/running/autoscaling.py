"""How many replicas a service should have, from how busy they are and what waits for them; no I/O, no clock.

    busier than the target, and rows wait                ─► more: as many as bring it to the target
    idler than the target for all of the cool-down       ─► fewer: as many as the busiest look of it needs
    near the target, or changed within the cool-down     ─► as it is

Invariant: never beyond `min` and `max`, and no two changes within one cool-down.
"""

import math
from collections import deque
from dataclasses import dataclass

from headrace.services.options.placed import AutoscaleOptions

TOLERANCE = 0.1
"""Share of the target within which a service is left as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """At one service."""

    at_s: float
    replicas: int
    busy: float
    """Mean share of the time since the last look that its replicas worked, 0 to 1."""
    ready: int
    """Rows that wait for it and for nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    replicas: int
    why: str


class Autoscaling:
    """Of one service."""

    def __init__(self, options: AutoscaleOptions, *, at_s: float) -> None:
        self._options = options
        self._changed_s = at_s
        self._needed: deque[tuple[float, int]] = deque()
        """When, and how many the look called for."""

    def changed(self, at_s: float) -> None:
        """It was scaled, by whomever, or was not to be: the cool-down begins."""
        self._changed_s = at_s
        self._needed.clear()

    def decide(self, look: Look) -> Decision | None:
        """What to scale the service to; None: it stays as it is."""
        options, needed = self._options, self._needed_at(look)
        self._needed.append((look.at_s, needed))
        while self._needed[0][0] < look.at_s - options.cool_down_s:
            self._needed.popleft()
        if look.at_s < self._changed_s + options.cool_down_s:
            return None
        found = f"{look.busy:.0%} busy of {look.replicas} replicas, target {options.target:.0%}"
        if needed > look.replicas:
            return Decision(replicas=needed, why=f"{found}; {look.ready} rows wait")
        most = max(count for _, count in self._needed)
        if most < look.replicas:
            return Decision(replicas=most, why=f"{found}; so for {options.cool_down_s:g} s")
        return None

    def _needed_at(self, look: Look) -> int:
        options = self._options
        load = look.busy / options.target
        needed = look.replicas
        if load < 1 - TOLERANCE or (load > 1 + TOLERANCE and look.ready):
            needed = math.ceil(look.replicas * load - TOLERANCE)
        return min(max(needed, options.min), options.max)
