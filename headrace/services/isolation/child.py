"""The process that runs one function: `python -m headrace.services.isolation.child`, frames on its pipes.

The first frame names what makes the function, each later one is a question; every frame is answered by one.
The function runs in the main thread, so that `signal.alarm` works in it, and sees neither pipe: its prints go
to stderr, as do tracebacks. Where the first frame says so, the process is confined before it imports
anything of the function's. It ends when its owner's end of the pipe closes, or by its limit of processor
time.
"""

import math
import os
import queue
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO, NoReturn

from headrace.algorithms.by_path import find
from headrace.services.isolation.confined import confine, met
from headrace.services.isolation.framing import LENGTH, body_length, pack, unpack
from headrace.services.pipes import take_pipes

Function = Callable[[dict[str, Any]], dict[str, Any]]


def main() -> None:
    asked, answers = take_pipes()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if (first := _frame(asked)) is None:
        return
    _confine(first, answers)
    frames: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(asked, frames), daemon=True).start()
    function = _make(first, answers)
    while True:
        frame = frames.get()
        _limit_processor_time(frame["timeout_s"])
        answers.write(_answer(function, frame["question"], first))
        answers.flush()


def _frame(asked: BinaryIO) -> dict[str, Any] | None:
    """The next; None, where its owner is gone."""
    head = asked.read(LENGTH.size)
    return unpack(asked.read(body_length(head))) if len(head) == LENGTH.size else None


def _read(asked: BinaryIO, frames: "queue.SimpleQueue[dict[str, Any]]") -> None:
    """Ends the process with its owner, even while the function runs."""
    while (frame := _frame(asked)) is not None:
        frames.put(frame)
    os._exit(0)


def _confine(first: dict[str, Any], answers: BinaryIO) -> None:
    """Before there is another thread, which would be left free."""
    if (told := first["confinement"]) is None:
        return
    try:
        confine(told)
    except OSError as error:
        _give_up(
            answers, f"{error}; set the verifier's limits: null to run it with all that this user may do"
        )


def _give_up(answers: BinaryIO, why: str) -> NoReturn:
    answers.write(pack({"unusable": why}))
    answers.flush()
    raise SystemExit(1)


def _make(frame: dict[str, Any], answers: BinaryIO) -> Function:
    try:
        function = find(frame["make"], key="make", what="function")(**frame["arguments"])
    except BaseException as error:
        _give_up(answers, f"{_name(error)}: {error}{_met(error, frame)}")
    answers.write(pack({"ready": True}))
    answers.flush()
    return function


def _answer(function: Function, question: dict[str, Any], first: dict[str, Any]) -> bytes:
    """The answer's frame; a function that exits or is interrupted counts as one that raised."""
    try:
        return pack({"answer": function(question)})
    except BaseException as error:
        traceback.print_exception(error)
        return pack({"raised": f"{_name(error)}: {error}{_place(error)}{_met(error, first)}"})
    finally:
        signal.alarm(0)


def _met(error: BaseException, first: dict[str, Any]) -> str:
    """Which limit an error may come of."""
    return "" if first["confinement"] is None else met(error)


def _name(error: BaseException) -> str:
    return type(error).__name__


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""


def _limit_processor_time(timeout_s: float) -> None:
    """Bounds an orphan that holds the interpreter's lock, where no thread sees the pipe close."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    allowed = (timeout_s + 1.0) * (os.cpu_count() or 1)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = math.ceil(used.ru_utime + used.ru_stime + allowed)
    if hard == resource.RLIM_INFINITY or soft <= hard:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


if __name__ == "__main__":
    sys.exit(main())
