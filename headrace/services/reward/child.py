"""The process that runs one verifier: `python -m headrace.services.reward.child`, frames on stdin and stdout.

The first frame names the verifier, each later one holds an answer; every frame is answered by one. The
verifier runs in the main thread, so that `signal.alarm` works in it, and sees neither pipe: its prints go
to stderr, as do tracebacks. The process ends when its owner's end of the pipe closes, or by its limit of
processor time.
"""

import json
import math
import os
import queue
import resource
import signal
import sys
import threading
import traceback
from typing import Any, BinaryIO

from headrace.services.reward.framing import LENGTH, body_length, pack, unpack
from headrace.services.reward.verifiers import Verifier, from_plain, make
from headrace.services.verdicts.errors import VerdictRefused
from headrace.services.verdicts.verdict import Score, Verdict


def main() -> None:
    asked, answers = _take_pipes()
    frames: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(asked, frames), daemon=True).start()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    verifier = _make(frames.get(), answers)
    while True:
        frame = frames.get()
        _limit_processor_time(frame["timeout_s"])
        answers.write(pack(_score(verifier, frame)))
        answers.flush()


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Both pipes under other descriptors; what the verifier reads is empty, what it prints goes to stderr."""
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return asked, answers


def _read(asked: BinaryIO, frames: "queue.SimpleQueue[dict[str, Any]]") -> None:
    """Ends the process with its owner, even while the verifier runs."""
    while len(head := asked.read(LENGTH.size)) == LENGTH.size:
        frames.put(unpack(asked.read(body_length(head))))
    os._exit(0)


def _make(frame: dict[str, Any], answers: BinaryIO) -> Verifier:
    try:
        verifier = make(from_plain(frame["options"]))
    except BaseException as error:
        answers.write(pack({"unusable": f"{_name(error)}: {error}"}))
        answers.flush()
        raise SystemExit(1) from error
    answers.write(pack({"ready": True}))
    answers.flush()
    return verifier


def _score(verifier: Verifier, frame: dict[str, Any]) -> dict[str, Any]:
    """The answer's frame; a verifier that exits or is interrupted counts as one that raised."""
    try:
        columns = json.loads(frame["columns"])
        return _plain(verifier(frame["response"], json.loads(frame["example"]), **columns))
    except VerdictRefused as error:
        return {"error": str(error), "refused": True}
    except BaseException as error:
        traceback.print_exception(error)
        return {"error": f"{_name(error)}: {error}{_place(error)}", "refused": False}
    finally:
        signal.alarm(0)


def _plain(verdict: Verdict) -> dict[str, Any]:
    if isinstance(verdict, Score):
        return {"value": float(verdict.value), "parts": {k: float(v) for k, v in verdict.parts.items()}}
    return {"invalid": verdict.reason}


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
