"""A rank beside rank 0: `python -m headrace.services.trainer.ranks.worker <rank 0's pid>`, frames on pipes.

    setup ─► ready, `open` ─► the model is loaded, then each call of rank 0 ─► done, or what it raised

It ends when its pipe closes, at the latest when rank 0's process does. A call that raised what not every rank
raises alike ends it too, so that those which wait for it in the group learn of it.
"""

import ctypes
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import Any, BinaryIO

from headrace.algorithms.base import Algorithm
from headrace.algorithms.registry import Recipe
from headrace.services.pipes import take_pipes
from headrace.services.trainer.backend import EVERYWHERE, Backend
from headrace.services.trainer.ranks.setup import Setup, join, open_rank
from headrace.services.trainer.ranks.wire import LENGTH, pack, unpack

PR_SET_PDEATHSIG = 1


def main(parent: int) -> int:
    asked, answers = take_pipes()
    _die_with(parent)
    frames: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(asked, frames), daemon=True).start()
    rank: _Rank | None = None
    while True:
        frame = frames.get()
        try:
            if rank is None:
                rank = _Rank(frame["setup"], frame["rank"])
            else:
                rank.do(frame["call"], frame["arguments"])
        except EVERYWHERE as error:
            _say(answers, {"raised": type(error).__name__, "text": str(error)})
        except Exception as error:
            traceback.print_exception(error)
            _say(answers, {"raised": type(error).__name__, "text": str(error)})
            return 1
        else:
            _say(answers, {})


class _Rank:
    """Does what rank 0 says: `open` first, then calls of the back end."""

    _backend: Backend

    def __init__(self, setup: Setup, rank: int) -> None:
        import torch

        import headrace.services.trainer.torch_backend  # noqa: F401  so that loading takes all ranks alike

        torch.set_num_threads(setup.threads)
        self._setup, self._rank = setup, rank
        self._built: tuple[Recipe, Algorithm] | None = None

    def do(self, call: str, arguments: Sequence[Any]) -> None:
        if call == "open":
            join(self._setup, self._rank)
            self._backend = open_rank(self._setup, self._rank).backend
        else:
            getattr(self._backend, call)(*map(self._given, arguments))

    def _given(self, argument: Any) -> Any:
        """An algorithm stays the same object until another is asked for, as at rank 0."""
        if not isinstance(argument, Recipe):
            return argument
        if self._built is None or self._built[0] != argument:
            self._built = argument, argument.build()
        return self._built[1]


def _say(answers: BinaryIO, message: dict[str, Any]) -> None:
    answers.write(pack(message))
    answers.flush()


def _die_with(parent: int) -> None:
    """The kernel ends this process when the thread that started it ends, also while it is stopped."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _read(asked: BinaryIO, frames: "queue.SimpleQueue[dict[str, Any]]") -> None:
    """Ends the process with rank 0, also while it works or waits."""
    while len(head := asked.read(LENGTH.size)) == LENGTH.size:
        frames.put(unpack(asked.read(*LENGTH.unpack(head))))
    os._exit(0)


if __name__ == "__main__":
    code = main(int(sys.argv[1]))
    sys.stderr.flush()
    os._exit(code)
