"""Sums of floats in one order, whatever the threads do: a step on the same rows gives the same bits."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils import deterministic as memory

FILLS = "fill_uninitialized_memory"


class _Asked:
    """How many threads ask for it now: the first one sets what torch has for the whole process, the last one
    sets back what was there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._before = (False, False)
        self._fills = False

    def enter(self) -> None:
        with self._lock:
            self._threads += 1
            if self._threads > 1:
                return
            self._before = (
                torch.are_deterministic_algorithms_enabled(),
                torch.is_deterministic_algorithms_warn_only_enabled(),
            )
            self._fills = getattr(memory, FILLS)
            setattr(memory, FILLS, False)
            torch.use_deterministic_algorithms(True, warn_only=True)

    def leave(self) -> None:
        with self._lock:
            self._threads -= 1
            if self._threads:
                return
            torch.use_deterministic_algorithms(self._before[0], warn_only=self._before[1])
            setattr(memory, FILLS, self._fills)


_asked = _Asked()


@contextmanager
def deterministic() -> Iterator[None]:
    """Within it torch takes its deterministic kernels; where it has none it warns and goes on.

    On the CPU that concerns the backward of indexing, which else adds in the order of its threads. Trainers
    of several policies may be in it at once, each in its thread.
    """
    _asked.enter()
    try:
        yield
    finally:
        _asked.leave()
