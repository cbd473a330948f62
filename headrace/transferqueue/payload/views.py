"""Which segments a client looks at, and since when it looks at one no more.

Invariant: a segment is reported once, with the number of answers that named it, and only when none of them is
being read and no view made from them is left, in whatever thread and by whatever library it was held. A
process that was forked looks for ever: what was open then is never reported.
"""

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import numpy as np


class Views:
    """Counts the views of one client."""

    def __init__(self) -> None:
        self._answers: dict[str, int] = {}
        self._open: dict[str, int] = {}
        self._ended: deque[str] = deque()
        self._inherited: set[str] = set()
        with _LOCK:
            _ALL.add(self)

    @contextmanager
    def holding(self, segments: Collection[str]) -> Iterator[None]:
        """An answer named these segments and is being read."""
        for segment in segments:
            self._answers[segment] = self._answers.get(segment, 0) + 1
            self._open[segment] = self._open.get(segment, 0) + 1
        try:
            yield
        finally:
            self._ended.extend(segments)

    def watch(self, view: np.ndarray, segment: str) -> None:
        """`view` is one of an answer that is being read."""
        self._open[segment] = self._open.get(segment, 0) + 1
        weakref.finalize(view, self._ended.append, segment).atexit = False

    def let_go(self, refresh: Callable[[str], object]) -> dict[str, int]:
        """By segment that nothing looks at any more: answers that had named it since the last report.

        `refresh` is called with each of them before.
        """
        quiet: set[str] = set()
        while self._ended:
            segment = self._ended.popleft()
            self._open[segment] -= 1
            if not self._open[segment]:
                del self._open[segment]
                quiet.add(segment)
        for segment in quiet & self._inherited:
            self._answers.pop(segment, None)
        quiet -= self._inherited
        for segment in quiet:
            refresh(segment)
        return {segment: self._answers.pop(segment) for segment in quiet if segment in self._answers}

    def inherit(self) -> None:
        """The process was forked: its child has every view that is open."""
        self._inherited.update(self._open)


_ALL: "weakref.WeakSet[Views]" = weakref.WeakSet()
_LOCK = threading.Lock()


def _on_fork() -> None:
    with _LOCK:
        for views in _ALL:
            views.inherit()


os.register_at_fork(before=_on_fork)
