import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.services.options import PythonVerifier, ReasoningGymData, ReasoningGymVerifier
from headrace.services.reward.isolated import IsolatedVerifier
from headrace.services.source.datasets import open_dataset
from headrace.services.verdicts.errors import VerdictRefused, VerifierDied, VerifierRaised, VerifierUnusable
from headrace.services.verdicts.verdict import Invalid, Score

VERIFIER = """
import os, re, signal, sys, time

def alarmed(seconds):
    def late(*_):
        raise TimeoutError("too late")
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)

def score(response, example):
    print("noise on stdout", flush=True)
    match response:
        case "alarm":
            alarmed(0.05)
            time.sleep(60)
        case "alarm left behind":
            alarmed(0.5)
            return 0.5
        case "backtrack":
            re.match("(a+)+$", "a" * 60 + "b")
        case "hang":
            time.sleep(60)
        case "die":
            os._exit(3)
        case "exit":
            sys.exit(4)
        case "raise":
            raise ValueError("no such letter")
        case "nan":
            return float("nan")
        case "none":
            return None
        case "stdin":
            return float(len(sys.stdin.read()))
        case "pid":
            return os.getpid()
    return {"reward": 0.25, "big": float(example["big"] == 1 << 80)}
"""
BIG = {"big": 1 << 80}
ROOT = str(Path(__file__).parents[3])


@pytest.fixture
async def isolated(tmp_path: Path) -> AsyncIterator[IsolatedVerifier]:
    (tmp_path / "mine.py").write_text(VERIFIER)
    isolated = IsolatedVerifier(PythonVerifier(function=f"{tmp_path}/mine.py:score", timeout_s=60.0))
    yield isolated
    await isolated.close()


def gone(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return False
    return True


async def test_the_process_starts_at_the_first_answer_and_ends_with_close(isolated: IsolatedVerifier) -> None:
    assert isolated.pid is None
    assert await isolated.score("x", BIG) == Score(value=0.25, parts={"big": 1.0})
    pid = isolated.pid
    assert pid is not None and not gone(pid)
    await isolated.close()
    assert isolated.pid is None and gone(pid)


async def test_a_verifier_may_use_signal_alarm(isolated: IsolatedVerifier) -> None:
    """A25: in a thread every such score became 0."""
    with pytest.raises(VerifierRaised, match=r"^TimeoutError: too late \(.*mine\.py:\d+\)$"):
        await isolated.score("alarm", BIG)
    assert await isolated.score("alarm left behind", BIG) == Score(value=0.5)
    await asyncio.sleep(0.6)
    assert await isolated.score("x", BIG) == Score(value=0.25, parts={"big": 1.0})


async def test_an_answer_that_takes_too_long_is_invalid_and_the_process_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(VERIFIER)
    isolated = IsolatedVerifier(PythonVerifier(function=f"{tmp_path}/mine.py:score", timeout_s=0.3))
    await isolated.start()
    pid = isolated.pid
    assert await isolated.score("hang", BIG) == Invalid(reason="the verifier took longer than 0.3 s")
    assert pid is not None and gone(pid)
    isolated._process._timeout_s = 60.0
    assert await isolated.score("none", BIG) == Invalid(reason="the verifier returned None")
    assert isolated.pid not in (None, pid)
    await isolated.close()


@pytest.mark.parametrize(
    ("response", "error", "named"),
    [
        ("raise", VerifierRaised, r"ValueError: no such letter"),
        ("exit", VerifierRaised, "SystemExit: 4"),
        ("nan", VerdictRefused, r"^reward is nan \(float\); allowed are"),
        ("die", VerifierDied, "ended with code 3 while it was asked"),
    ],
)
async def test_what_goes_wrong_is_an_error_and_the_next_answer_is_scored(
    isolated: IsolatedVerifier, response: str, error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        await isolated.score(response, BIG)
    assert await isolated.score("x", BIG) == Score(value=0.25, parts={"big": 1.0})


async def test_a_killed_process_is_replaced(isolated: IsolatedVerifier) -> None:
    await isolated.start()
    assert isolated.pid is not None
    os.kill(isolated.pid, signal.SIGKILL)
    with contextlib.suppress(VerifierDied):
        await isolated.score("x", BIG)
    assert await isolated.score("x", BIG) == Score(value=0.25, parts={"big": 1.0})


async def test_concurrent_answers_go_to_one_process_and_come_back_to_their_askers(
    isolated: IsolatedVerifier,
) -> None:
    responses = ["pid", "x", "none", "stdin"] * 5
    verdicts = await asyncio.gather(*(isolated.score(response, BIG) for response in responses))
    assert (
        verdicts
        == [
            Score(value=float(isolated.pid or 0)),
            Score(value=0.25, parts={"big": 1.0}),
            Invalid(reason="the verifier returned None"),
            Score(value=0.0),
        ]
        * 5
    )


async def test_a_cancelled_answer_is_not_taken_for_the_next(isolated: IsolatedVerifier) -> None:
    await isolated.start()
    asked = asyncio.ensure_future(isolated.score("hang", BIG))
    await asyncio.sleep(0.1)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert await isolated.score("x", BIG) == Score(value=0.25, parts={"big": 1.0})


async def test_a_verifier_that_cannot_be_made_says_so_at_the_start() -> None:
    isolated = IsolatedVerifier(PythonVerifier(function="operator:nothing_like_it"))
    with pytest.raises(VerifierUnusable, match="operator has no function 'nothing_like_it'"):
        await isolated.start()
    assert isolated.pid is None


async def test_reasoning_gym_is_scored_in_its_own_process() -> None:
    pytest.importorskip("reasoning_gym")
    example = open_dataset(ReasoningGymData(task="graph_color", size=2), seed=0)[0].example
    isolated = IsolatedVerifier(ReasoningGymVerifier())
    verdict = await isolated.score("<answer>{}</answer>", example)
    await isolated.close()
    assert isinstance(verdict, Score) and verdict.parts["exact"] == 0.0


OWNER = """
import asyncio, sys
from headrace.services.options import PythonVerifier
from headrace.services.reward.isolated import IsolatedVerifier

async def main():
    timeout_s = 2.0 if sys.argv[2] == "backtrack" else 60
    isolated = IsolatedVerifier(PythonVerifier(function=sys.argv[1], timeout_s=timeout_s))
    await isolated.start()
    print(isolated.pid, flush=True)
    await isolated.score(sys.argv[2], {"big": 0})

asyncio.run(main())
"""


@pytest.mark.parametrize("response", ["hang", pytest.param("backtrack", marks=pytest.mark.slow)])
def test_the_process_does_not_outlive_an_owner_that_is_killed(tmp_path: Path, response: str) -> None:
    """A regular expression that backtracks holds the interpreter's lock: processor time ends it."""
    (tmp_path / "mine.py").write_text(VERIFIER)
    (tmp_path / "owner.py").write_text(OWNER)
    command = [sys.executable, tmp_path / "owner.py", f"{tmp_path}/mine.py:score", response]
    pipe, environment = subprocess.PIPE, {**os.environ, "PYTHONPATH": ROOT}
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, env=environment) as owner:
        assert owner.stdout is not None and owner.stderr is not None
        child = os.pidfd_open(int(owner.stdout.readline()))
        assert owner.stderr.readline() == b"noise on stdout\n"
        owner.kill()
    ended, _, _ = select.select([child], [], [], 60.0)
    os.close(child)
    assert ended
