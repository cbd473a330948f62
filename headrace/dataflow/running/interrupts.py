"""Ctrl-C and SIGTERM while a launch goes on.

the first, while the run is up       asks it to end: what is held is handed back, a checkpoint is made
the first before that, the second    cut it short: the launch is cancelled and cleans up behind it
"""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """with Interrupts() as interrupts: ..., in the task that a cut is to cancel.

    Without effect outside of the main thread, where no signal arrives.
    """

    def __init__(self) -> None:
        self.count = 0
        self.patient = False
        """Whether `asked` is waited for, so that the first signal need not cancel."""
        self.asked = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for number in SIGNALS:
                self._before[number] = signal.getsignal(number)
                loop.add_signal_handler(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number, handler in self._before.items():
            loop.remove_signal_handler(number)
            if handler is not None:
                signal.signal(number, handler)

    def _take(self) -> None:
        self.count += 1
        self.asked.set()
        if self._task is not None and (self.count > 1 or not self.patient):
            self._task.cancel()


@contextmanager
def kept_signals() -> Iterator[None]:
    """Signal handlers stay as they were, whatever a library installs in the block."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
