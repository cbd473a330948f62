"""The states of a replica."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.services.errors import LifecycleError
from headrace.services.lifecycle import EDGES, Lifecycle, State


def lifecycle() -> tuple[Lifecycle, list[tuple[str, str, str]]]:
    changes: list[tuple[str, str, str]] = []
    return Lifecycle(lambda old, new, reason: changes.append((old, new, reason))), changes


def test_a_replica_goes_from_starting_to_stopped_and_tells_each_change() -> None:
    life, changes = lifecycle()
    for state in (State.LOADING, State.READY, State.DRAINING, State.STOPPED):
        life.to(state)
    assert [new for _, new, _ in changes] == ["loading", "ready", "draining", "stopped"]
    assert life.ended


def test_no_edge_leads_from_failed_back_to_ready() -> None:
    life, _ = lifecycle()
    life.to(State.FAILED, "boom")
    with pytest.raises(LifecycleError, match="no edge from failed to ready; from here: none"):
        life.to(State.READY)


def test_ready_is_reached_through_loading_only() -> None:
    life, _ = lifecycle()
    with pytest.raises(LifecycleError, match="from here: failed, loading, stopped"):
        life.to(State.READY)


def test_every_state_but_the_last_two_can_fail() -> None:
    assert {s for s, targets in EDGES.items() if State.FAILED in targets} == set(State) - {
        State.STOPPED,
        State.FAILED,
    }


def test_staying_put_is_no_change() -> None:
    life, changes = lifecycle()
    life.to(State.STARTING)
    assert changes == []


@given(asked=st.lists(st.sampled_from(State), max_size=20))
def test_whatever_is_asked_a_replica_that_failed_or_stopped_stays_so_and_was_loading_before_it_was_ready(
    asked: list[State],
) -> None:
    life, changes = lifecycle()
    for state in asked:
        before = life.state
        try:
            life.to(state)
        except LifecycleError:
            assert life.state is before
    told = [new for _, new, _ in changes]
    ends = [place for place, state in enumerate(told) if state in (State.FAILED, State.STOPPED)]
    assert ends in ([], [len(told) - 1])
    assert "ready" not in told or told[told.index("ready") - 1] == "loading"
