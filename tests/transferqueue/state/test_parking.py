"""Rows whose cells are on a node that is away wait for it, and cost nobody an attempt."""

from collections.abc import Callable
from typing import Any

from headrace.transferqueue.server.census import table_stats
from headrace.transferqueue.server.explain import why_no_lease
from headrace.transferqueue.state.parking import park, parked_rows, unpark
from headrace.transferqueue.state.records import Block
from headrace.transferqueue.state.rewind import rewind

Make = Callable[..., Any]


def on(bench: Any, node: str) -> None:
    """From now on the bench's blocks are on that node."""
    bench.block = lambda: Block(segment="s", offset=0, length=100, node=node)


def test_rows_on_a_node_that_is_away_are_not_leased_until_it_is_back(bench: Make) -> None:
    """Rows 0 and 1 are on node b, 2 and 3 beside the controller."""
    table = bench()
    on(table, "b")
    table.prompts(1, 2)
    on(table, "")
    table.prompts(1, 2, first=1)
    park(table.table, "b")
    assert table.lease("roll", 9, version=0)[1] == [2, 3]
    assert parked_rows(table.table) == {"b": 2}
    roll = table_stats(table.table, 0.0).tasks["roll"]
    assert (roll.waiting, roll.parked, roll.ready, roll.leased) == (0, 2, 0, 2)
    assert "2 rows are parked: their cells are on nodes that are away ('b')" in why_no_lease(
        table.table, "roll", version=0
    )
    unpark(table.table, "b")
    assert table.table.effects().tasks == ("roll", "score", "learn")
    assert table.lease("roll", 9, version=0)[1] == [0, 1]
    assert parked_rows(table.table) == {}


def test_only_the_tasks_that_read_the_cells_wait(bench: Make) -> None:
    """The answers are on node b, the prompts are not: rolling goes on, scoring waits."""
    table = bench()
    table.prompts(2, 2)
    on(table, "b")
    assert table.roll(2, 0) == [0, 1]
    park(table.table, "b")
    assert table.score() == []
    on(table, "")
    assert table.roll(2, 0) == [2, 3]
    assert table.score() == [2, 3]
    unpark(table.table, "b")
    assert table.score() == [0, 1]


def test_a_group_with_a_parked_row_is_not_whole(bench: Make) -> None:
    table = bench(staleness=1.0)
    table.prompts(2, 2)
    table.roll(1, 0)
    on(table, "b")
    table.roll(1, 0)
    on(table, "")
    table.roll(2, 0)
    table.score()
    park(table.table, "b")
    assert table.learn() == [2, 3]
    unpark(table.table, "b")
    assert table.learn() == [0, 1]


def test_cells_written_while_the_node_is_away_wait_as_well(bench: Make) -> None:
    table = bench()
    park(table.table, "b")
    on(table, "b")
    table.prompts(1, 2)
    assert table.lease("roll", 9, version=0)[1] == []
    unpark(table.table, "b")
    assert table.lease("roll", 9, version=0)[1] == [0, 1]


def test_a_lease_that_is_held_stands_and_costs_no_attempt_when_it_is_handed_back(bench: Make) -> None:
    table = bench()
    on(table, "b")
    table.prompts(1, 2)
    lease, uids = table.lease("roll", 2, version=0)
    park(table.table, "b")
    table.write([0], ("response", "versions"), lease, floors=[0])
    table.table.ack(lease, [0])
    assert table.table.release(lease, [1], reason="could not read it", failed=False) == 1
    assert table.lease("roll", 9, version=0)[1] == []
    assert parked_rows(table.table) == {"b": 2}, "row 1 for its roll, row 0 for its score"
    unpark(table.table, "b")
    assert table.lease("roll", 9, version=0)[1] == [1]
    assert table.table.shelf.rows[1].failures == {0: 0}
    assert uids == [0, 1]


def test_a_row_of_two_nodes_waits_for_both(bench: Make) -> None:
    table = bench()
    on(table, "b")
    table.prompts(1, 1)
    on(table, "c")
    table.roll(1, 0)
    for node in ("b", "c"):
        park(table.table, node)
    assert parked_rows(table.table) == {"b": 1, "c": 1}
    unpark(table.table, "b")
    assert table.score() == []
    unpark(table.table, "c")
    assert table.score() == [0]


def test_a_replayed_step_keeps_its_order_while_a_part_of_it_is_parked(bench: Make) -> None:
    table = bench(rewindable=True, staleness=1.0)
    table.prompts(2, 2)
    table.roll(9, 0)
    on(table, "b")
    table.score(2)
    on(table, "")
    table.score(2)
    learned = table.learn()
    table.commit(0, learned)
    park(table.table, "b")
    rewind(table.table, "learn", 0)
    assert table.learn() == []
    unpark(table.table, "b")
    assert table.learn() == learned == [0, 1, 2, 3]
