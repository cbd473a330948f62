"""The set of row ids that have been and gone, against a plain set."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.transferqueue.state.ledger import RangeSet

IDS = st.integers(0, 30)


@given(st.lists(st.tuples(st.booleans(), st.sets(IDS, max_size=8)), max_size=12))
def test_runs_hold_what_a_plain_set_would(changes: list[tuple[bool, set[int]]]) -> None:
    runs, plain = RangeSet(), set[int]()
    for adds, values in changes:
        if adds:
            runs.update(sorted(values, reverse=True))
            plain |= values
        else:
            for value in values:
                runs.discard(value)
            plain -= values
        assert [value for value in range(-1, 33) if value in runs] == sorted(plain)
        assert runs.common(list(range(31))) == sorted(plain)


def test_ids_that_follow_one_another_are_one_run() -> None:
    runs = RangeSet()
    runs.update([1, 2, 3])
    runs.update([7, 6, 5])
    assert (runs._starts, runs._ends) == ([1, 5], [4, 8])
    runs.add(4)
    assert (runs._starts, runs._ends) == ([1], [8])
    assert runs.common([0, 8, 7]) == [7]
