from types import SimpleNamespace
from typing import Any, cast

from headrace.dataflow.record.board import Board
from headrace.dataflow.record.seen import Seen
from headrace.dataflow.record.telemetry import METRICS, Record
from headrace.dataflow.running.changes import Changes
from headrace.dataflow.running.live import Live
from headrace.transferqueue import Stats
from tests.dataflow.running.launched import current, graph

STATS = Stats(
    tables={},
    policies={"actor": 3},
    segments=0,
    segment_bytes=0,
    clients=5,
    waiting=0,
    forgotten=0,
    malformed=0,
)


class Queue:
    async def stats(self) -> Stats:
        return STATS


def live(board: Board) -> Live:
    nobody: Any = SimpleNamespace()
    return Live(
        current(graph()),
        nobody,
        changes=cast(Changes, nobody),
        board=board,
        seen=Seen(),
        supervisor=nobody,
        client=cast(Any, Queue()),
        drills=nobody,
        stop=lambda: None,
    )


async def test_prometheus_is_told_of_the_steps_asked_for_the_figures_and_the_queue() -> None:
    board = Board()
    board.take(
        Record(source="learn/0", kind=METRICS, at=1.0, step=3, policy="actor", body={"reward/mean": 0.5})
    )
    said = (await live(board).metrics()).splitlines()
    assert 'headrace_step{policy="actor"} 4.0' in said
    assert 'headrace_steps_asked{policy="actor"} 20.0' in said
    assert 'headrace_training{figure="reward/mean",policy="actor"} 0.5' in said
    assert 'headrace_policy_version{policy="actor"} 3.0' in said
    assert "headrace_queue_clients 5.0" in said
