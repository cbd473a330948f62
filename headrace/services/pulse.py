"""What a replica does, and since when nothing has come of it: what whoever watches over it goes by.

    with pulse.working("process 8 rows"):      it holds work, and something must come of it
        pulse.beat()                           something has
        with pulse.waiting(): ...              of others: no work of its own meanwhile

Invariant: a replica that holds no work is never still, however long it waits for rows, weights or room. Long
work that goes on shows in `counts`, such as the tokens that an engine has made.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.services.trace import Trace

LOADING = "load"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """What a replica answers when it is looked at."""

    doing: str
    """What it holds; "": nothing, it waits for others."""
    still_s: float
    """Seconds without anything come of what it holds; 0.0 where it holds nothing."""
    ready: bool
    """Whether it has been ready, or is loading yet."""


class Pulse:
    """Of one replica. `beat` may be called from any thread, the rest in the loop's."""

    def __init__(self, now: Callable[[], float] = time.monotonic, *, trace: Trace | None = None) -> None:
        """`trace`: hears of all work, when it is over."""
        self._now = now
        self._trace = trace or Trace()
        self._moved_s = now()
        self._works: Counter[str] = Counter()
        self._away = 0
        self._count = 0.0
        self.ready = False
        self.counts: Callable[[], float] = lambda: 0.0
        """Grows while work goes on."""

    def beat(self) -> None:
        self._moved_s = self._now()

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        if not self._is_at_work():
            self.beat()
        self._works[what] += 1
        try:
            with self._trace.during(what):
                yield
        finally:
            self._works[what] -= 1
            self._works += Counter()
            self.beat()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """In a block of `working`: others owe the next move."""
        self._away += 1
        try:
            yield
        finally:
            if not self._is_at_work():
                self.beat()
            self._away -= 1

    def look(self) -> Beat:
        if (count := self.counts()) != self._count:
            self._count = count
            self.beat()
        doing = ", ".join(what if n == 1 else f"{n} x {what}" for what, n in self._works.items())
        still_s = self._now() - self._moved_s if self._is_at_work() else 0.0
        return Beat(doing=doing, still_s=still_s, ready=self.ready)

    def _is_at_work(self) -> bool:
        return self._works.total() > self._away
