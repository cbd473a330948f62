import json
from itertools import islice
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headrace.services.data_position import DataPosition


def test_groups_finished_out_of_order_raise_the_mark_only_over_a_full_run() -> None:
    position = DataPosition().advance([0, 1, 3])
    assert position == DataPosition(next=2, done=frozenset({3}))
    assert position.advance([2]) == DataPosition(next=4)
    assert position.consumed == 3


@given(st.lists(st.integers(0, 30), unique=True), st.integers(1, 5))
def test_what_remains_is_exactly_what_no_committed_step_used(groups: list[int], per_step: int) -> None:
    position = DataPosition()
    for start in range(0, len(groups), per_step):
        position = position.advance(groups[start : start + per_step])
    assert list(position.remaining(31)) == [group for group in range(31) if group not in groups]
    assert position.consumed == len(groups)
    assert DataPosition.from_json(json.loads(json.dumps(position.to_json()))) == position


def test_advancing_twice_by_the_same_groups_changes_nothing() -> None:
    position = DataPosition().advance([0, 2])
    assert position.advance([0, 2]) == position


def test_without_a_total_positions_have_no_end() -> None:
    assert list(islice(DataPosition(next=4, done=frozenset({5})).remaining(None), 3)) == [4, 6, 7]


def test_it_is_found_where_the_trainer_puts_it_into_a_checkpoint(tmp_path: Path) -> None:
    values = {"data_position": {"next": 2, "done": [4]}}
    (tmp_path / "state.json").write_text(json.dumps({"step": 1, "values": values}))
    assert DataPosition.of_checkpoint(tmp_path) == DataPosition(next=2, done=frozenset({4}))
