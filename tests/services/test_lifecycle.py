"""The states of a replica."""

import pytest

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
