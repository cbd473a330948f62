from headrace.dataflow.record.history import History, Line


def step(number: int, time: float, **metrics: float) -> Line:
    return {"step": number, "time": time, **metrics}


def test_steps_that_a_resume_rolled_back_are_counted_once() -> None:
    lines = [step(0, 1.0, loss=5), step(1, 2.0, loss=4), step(2, 3.0, loss=3), step(1, 9.0, loss=2)]
    history = History.of(lines, [])
    assert history.values("loss") == [(0, 5), (1, 2)]


def test_two_records_of_one_step_are_one_line() -> None:
    history = History.of([step(0, 1.0, loss=5), step(0, 1.0, reward=7)], [])
    assert history.steps == [{"step": 0, "time": 1.0, "loss": 5, "reward": 7}]


def test_unknown_values_are_left_out() -> None:
    lines: list[Line] = [{"step": 0, "time": 1.0, "loss": None}, step(1, 2.0, loss=4), step(2, 3.0)]
    assert History.of(lines, []).values("loss") == [(1, 4)]


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
