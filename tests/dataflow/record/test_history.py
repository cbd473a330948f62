import pytest

from headrace.dataflow.record.history import History, Line


def step(number: int, time: float, **metrics: float) -> Line:
    return {"step": number, "time": time, **metrics}


def test_steps_that_a_resume_rolled_back_are_counted_once() -> None:
    lines = [step(0, 1.0, loss=5), step(1, 2.0, loss=4), step(2, 3.0, loss=3), step(1, 9.0, loss=2)]
    history = History.of(lines, [])
    assert history.course().values("loss") == [(0, 5), (1, 2)]


def test_two_records_of_one_step_are_one_line() -> None:
    history = History.of([step(0, 1.0, loss=5), step(0, 1.0, reward=7)], [])
    assert history.course().lines == [{"step": 0, "time": 1.0, "loss": 5, "reward": 7}]


def test_unknown_values_are_left_out() -> None:
    lines: list[Line] = [{"step": 0, "time": 1.0, "loss": None}, step(1, 2.0, loss=4), step(2, 3.0)]
    assert History.of(lines, []).course().values("loss") == [(1, 4)]


def test_the_newest_value_of_a_service_stands_whatever_was_said_since() -> None:
    lines: list[Line] = [
        {"service": "answers/0", "time": 1.0, "busy": 0.1},
        {"service": "answers/0", "time": 2.0, "busy": 0.5},
        {"service": "answers/0", "time": 3.0, "sync/seconds": 0.02},
        {"service": "answers/1", "time": 3.0, "busy": 0.7},
    ]
    nodes = History.of(lines, []).by_service()
    assert {node: [line["busy"] for line in replicas] for node, replicas in nodes.items()} == {
        "answers": [0.5, 0.7]
    }


def test_time_between_launches_is_not_time_of_the_run() -> None:
    events: list[Line] = [
        {"event": "run_started", "time": 100.0},
        {"event": "run_started", "time": 500.0},
        {"event": "run_ended", "time": 507.0, "status": "completed"},
    ]
    history = History.of([step(0, 103.0), step(1, 505.0)], events)
    assert history.seconds == 10.0
    assert history.status == "completed"


def test_a_launch_that_did_not_say_its_end_is_unfinished() -> None:
    events: list[Line] = [
        {"event": "run_started", "time": 1.0},
        {"event": "run_ended", "time": 2.0, "status": "interrupted"},
    ]
    assert History.of([], events).status == "interrupted"
    assert History.of([], [*events, {"event": "run_started", "time": 3.0}]).status == "unfinished"
    assert History.of([], []).status == "unfinished"


def test_the_queues_counters_add_up_over_tables_and_launches() -> None:
    events: list[Line] = [
        {"event": "queue", "time": 1.0, "table": "a", "lost": 1},
        {"event": "queue", "time": 1.0, "table": "b", "lost": 0},
        {"event": "queue", "time": 9.0, "table": "a", "lost": 2},
    ]
    assert History.of([], events).queue_total("lost") == 3
    assert History.of([], []).queue_total("lost") is None


def test_a_queue_that_lasts_over_launches_counts_itself() -> None:
    events: list[Line] = [
        {"event": "queue", "time": 1.0, "table": "a", "lasting": False, "lost": 1},
        {"event": "queue", "time": 2.0, "table": "a", "lasting": True, "lost": 2},
        {"event": "queue", "time": 3.0, "table": "a", "lasting": True, "lost": 5},
    ]
    assert History.of([], events).queue_total("lost") == 6


def test_each_policy_has_its_own_steps_and_rolls_back_alone() -> None:
    lines: list[Line] = [
        {"step": 0, "policy": "solver", "time": 1.0, "loss": 5},
        {"step": 0, "policy": "verifier", "time": 1.1, "loss": 50},
        {"step": 1, "policy": "verifier", "time": 1.2, "loss": 40},
        {"step": 1, "policy": "solver", "time": 1.3, "loss": 4},
        {"step": 0, "policy": "solver", "time": 9.0, "loss": 3},
    ]
    history = History.of(lines, [])
    assert list(history.policies) == ["solver", "verifier"]
    assert history.course("solver").values("loss") == [(0, 3)]
    assert history.course("verifier").values("loss") == [(0, 50), (1, 40)]
    with pytest.raises(ValueError, match="the run trained solver, verifier; name one of them"):
        history.course()


def test_scores_of_versions_that_a_resume_made_anew_stand_once() -> None:
    lines: list[Line] = [
        {
            "eval": "held_out",
            "version": version,
            "policy": "actor",
            "time": 1.0,
            "eval/held_out/reward": reward,
        }
        for version, reward in ((0, 0.1), (10, 0.5), (20, 0.9), (10, 0.6))
    ]
    history = History.of(lines, [])
    assert (history.policies, history.services) == ({}, {})
    assert history.evals["held_out"].policy == "actor"
    assert history.evals["held_out"].values("eval/held_out/reward") == [(0, 0.1), (10, 0.6)]


def test_time_of_the_run_stands_between_launches() -> None:
    events: list[Line] = [{"event": "run_started", "time": 100.0}, {"event": "run_started", "time": 500.0}]
    history = History.of([step(0, 103.0), step(1, 505.0)], events)
    moments = [99.0, 100.0, 103.0, 400.0, 500.0, 505.0, 900.0]
    assert [history.seconds_until(time) for time in moments] == [0.0, 0.0, 3.0, 3.0, 3.0, 8.0, 8.0]
    assert History.of([], []).seconds == 0.0
