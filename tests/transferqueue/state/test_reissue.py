"""Rows whose cells are gone: what goes back to whom, and what ends with it."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.transferqueue import StepRefused
from headrace.transferqueue.state.records import Block
from headrace.transferqueue.state.reissue import lose
from headrace.transferqueue.state.rewind import rewind

Make = Callable[..., Any]


def on(bench: Any, node: str) -> None:
    """From now on the bench's blocks are on that node."""
    bench.block = lambda: Block(segment="s", offset=0, length=100, node=node)


def lost_with_b(bench: Any) -> tuple[list[int], list[int]]:
    return lose(bench.table, lambda block: block.node == "b", "node b was lost")


def test_what_a_task_wrote_is_written_again_and_what_a_producer_put_is_gone(bench: Make) -> None:
    """Row 0 loses its prompt, row 1 its answer and with it its reward, row 2 nothing."""
    table = bench(whole_groups=False)
    on(table, "b")
    table.prompts(1, 1)
    on(table, "")
    table.prompts(2, 1, first=1)
    on(table, "b")
    assert table.roll(1, 0) == [0]
    assert table.roll(1, 0) == [1]
    on(table, "")
    table.score()
    assert lost_with_b(table) == ([1], [0])
    assert table.table.ledger.dropped == {"node b was lost": 1}
    assert sorted(table.lease("roll", 9, version=0)[1]) == [1, 2]
    assert table.table.shelf.rows[1].failures == {}


def test_a_trainer_that_holds_a_group_loses_all_of_it_with_the_cells_of_one_row(bench: Make) -> None:
    """It would hold a part that it may not commit, and nobody else could be given the rest."""
    table = bench(units_per_step=1)
    table.prompts(1, 2)
    table.roll(2, 0)
    table.score(1)
    on(table, "b")
    table.score(1)
    on(table, "")
    assert table.learn() == [0, 1]
    assert lost_with_b(table) == ([1], [])
    assert not list(table.table.leases)
    assert table.learn() == []
    assert table.score() == [1]
    assert table.learn() == [0, 1]
    table.commit(0, [0, 1])


def test_a_trainer_cannot_go_back_to_a_step_whose_cells_are_gone(bench: Make) -> None:
    table = bench(units_per_step=1, staleness=1.0, rewindable=True)
    on(table, "b")
    table.prompts(1, 2)
    on(table, "")
    table.prompts(1, 2, first=1)
    table.roll(4, 0)
    table.score()
    for step in (0, 1):
        uids = table.lease("learn", 2, holder="t")[1]
        table.commit(step, uids)
    assert lost_with_b(table) == ([], [])
    rewind(table.table, "learn", 1)
    with pytest.raises(StepRefused, match="cannot go back to step 0"):
        rewind(table.table, "learn", 0)
