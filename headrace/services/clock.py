"""Where a replica's time goes: fractions of busy, waiting and paused that sum to 1."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

Activity = Literal["busy", "idle_wait_data", "idle_wait_weights", "paused"]
ACTIVITIES: tuple[Activity, ...] = ("busy", "idle_wait_data", "idle_wait_weights", "paused")
ALIVE = "alive_s"


class ActivityClock:
    """Adds up seconds by activity.

    Of activities that overlap the first in the order of ACTIVITIES counts; with none, the replica waits
    for data.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._since = now()
        self._depth: dict[Activity, int] = dict.fromkeys(ACTIVITIES, 0)
        self._seconds: dict[Activity, float] = dict.fromkeys(ACTIVITIES, 0.0)

    @contextmanager
    def during(self, activity: Activity) -> Iterator[None]:
        self._settle()
        self._depth[activity] += 1
        try:
            yield
        finally:
            self._settle()
            self._depth[activity] -= 1

    def _settle(self) -> None:
        now = self._now()
        self._seconds[self._current()] += now - self._since
        self._since = now

    def _current(self) -> Activity:
        for activity, depth in self._depth.items():
            if depth:
                return activity
        return "idle_wait_data"

    def figures(self) -> dict[str, float]:
        """What a replica reports: the shares, and the seconds that they are of."""
        return {**self.fractions(), ALIVE: sum(self._seconds.values())}

    def fractions(self) -> dict[Activity, float]:
        """Shares of the time since the start; they sum to 1."""
        self._settle()
        total = sum(self._seconds.values())
        if total == 0.0:
            return {a: float(a == "idle_wait_data") for a in ACTIVITIES}
        return {a: s / total for a, s in self._seconds.items()}
