"""What no unfinished policy needs does not run: a launch retires it, and the next one does not start it."""

from pathlib import Path

import pytest

from tests.end_to_end.routed import GRAPH, SHORT, TABLES, last_of
from tests.end_to_end.two_policies import Run, ran

REASON = "no unfinished policy needs it"


def assert_trained(run: Run, steps: dict[str, int]) -> None:
    assert run.code == 0, run.events("run_ended")
    for policy, number in steps.items():
        assert [step["step"] for step in run.steps(policy)] == list(range(number))
    for table in map(last_of, [run] * 3, TABLES):
        assert (table["lost"], table["duplicated"], table["violations"]) == (0, 0, 0)


@pytest.mark.slow
def test_nodes_are_retired_with_the_last_policy_that_needs_them(tmp_path: Path) -> None:
    """The short specialist's step takes 4 rows and its table holds 32; the long one takes 30 steps more."""
    run = ran(tmp_path / "run", "learn_short.steps=3", "learn_long.steps=33", text=GRAPH)
    assert_trained(run, {"router": 2, "short": 3, "long": 33})
    retired = run.events("retired")
    assert sorted(event["replica"] for event in retired) == sorted(f"{name}/0" for name in (*SHORT, "scores"))
    assert {event["reason"] for event in retired} == {REASON}
    assert run.events("failed") == run.events("given_up") == run.events("process_failed") == []
    assert last_of(run, "short_questions")["created"] <= 100
    assert last_of(run, "long_questions")["trained"] == 33 * 4


@pytest.mark.slow
def test_a_launch_that_goes_on_starts_what_is_needed_and_a_policy_may_learn_further(tmp_path: Path) -> None:
    """The second launch is for the long specialist alone, the third for the other two."""
    directory, disk = tmp_path / "run", "queue.durability=disk"
    first = ran(directory, disk, "learn_long.steps=6", text=GRAPH)
    assert_trained(first, {"router": 2, "short": 2, "long": 6})
    made = last_of(first, "short_questions")["created"]

    second = ran(directory, disk, "learn_long.steps=9", text=GRAPH, resume=True)
    assert_trained(second, {"router": 2, "short": 2, "long": 9})
    (absent,) = second.events("not_started")
    assert set(absent["nodes"]) == {*SHORT, "learn_short", "scores"} and absent["reason"] == REASON
    assert last_of(second, "short_questions")["created"] == made

    further = ("learn.steps=5", "learn_short.steps=4", "learn_long.steps=9")
    third = ran(directory, disk, *further, text=GRAPH, resume=True)
    assert_trained(third, {"router": 5, "short": 4, "long": 9})
    assert len(third.events("not_started")) == 1
    assert last_of(third, "prompts")["trained"] == 5 * 4


@pytest.mark.slow
def test_a_run_that_is_complete_starts_nothing(tmp_path: Path) -> None:
    ran(tmp_path / "run", text=GRAPH)
    again = ran(tmp_path / "run", text=GRAPH, resume=True)
    assert_trained(again, {"router": 2, "short": 2, "long": 2})
    assert [event["status"] for event in again.events("run_ended")] == ["completed", "completed"]
    assert len(again.events("not_started")[0]["nodes"]) == 14
