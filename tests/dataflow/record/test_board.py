import asyncio
from typing import Any

from headrace.dataflow.record.board import Board
from headrace.dataflow.record.telemetry import Record
from headrace.services.lifecycle import State


def said(source: str, kind: str, at: float, step: int | None = None, policy: str = "", **body: Any) -> Record:
    return Record(source=source, kind=kind, at=at, step=step, body=body, policy=policy)


def started(at: float, restarts: int = 0) -> Record:
    return said("launch", "started", at, replica="answers/0", pid=7 + restarts, restarts=restarts)


def state(new: State, at: float, reason: str = "") -> Record:
    return said("answers/0", "state", at, old="", new=new, reason=reason)


def test_a_replica_stands_as_it_said_last() -> None:
    board = Board()
    for record in (started(1.0), state(State.LOADING, 2.0), state(State.READY, 3.0)):
        board.take(record)
    (standing,) = board.standings()
    assert (standing.replica, standing.state, standing.since) == ("answers/0", State.READY, 3.0)
    assert (standing.pid, standing.restarts, standing.error, standing.shares) == (7, 0, "", None)


def test_the_last_error_stays_in_the_life_that_follows() -> None:
    board = Board()
    board.take(started(1.0))
    board.take(said("launch", "died", 2.0, replica="answers/0", reason="killed", rows_returned=3))
    assert board.standings()[0].state is State.FAILED
    board.take(started(3.0, restarts=1))
    (standing,) = board.standings()
    assert (standing.state, standing.pid, standing.restarts) == (State.STARTING, 8, 1)
    assert standing.error == "killed"


def test_a_life_that_was_drained_is_over_and_no_failure() -> None:
    board = Board()
    for record in (started(1.0), state(State.READY, 2.0)):
        board.take(record)
    board.take(said("launch", "drained", 3.0, replica="answers/0", reason="restarted"))
    (standing,) = board.standings()
    assert (standing.state, standing.error) == (State.STOPPED, "")


def test_shares_of_time_and_steps_are_kept() -> None:
    board = Board()
    shares: dict[str, Any] = {"busy": 0.5, "idle_wait_data": 0.5, "idle_wait_weights": 0.0, "paused": 0.0}
    board.take(said("answers/0", "metrics", 1.0, policy="", **shares))
    board.take(said("answers/0", "metrics", 2.0, rows_done=5.0))
    board.take(said("learn/0", "metrics", 2.0, step=4, policy="actor", loss=0.1))
    assert board.standings()[0].shares == shares
    assert board.steps() == {"actor": 5}


async def test_a_state_is_waited_for() -> None:
    board = Board()
    ready = asyncio.ensure_future(board.reached("answers/0", State.READY))
    for record in (started(1.0), state(State.LOADING, 2.0)):
        board.take(record)
        await asyncio.sleep(0)
        assert not ready.done()
    board.take(state(State.READY, 3.0))
    await asyncio.wait_for(ready, 60.0)
