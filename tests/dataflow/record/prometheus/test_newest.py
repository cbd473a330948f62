from headrace.dataflow.record.prometheus.newest import Newest, Spent, Trained
from headrace.dataflow.record.telemetry import METRICS, SAMPLES, SCORES, Record


def record(
    source: str, kind: str = METRICS, *, step: int | None = None, policy: str = "", **body: object
) -> Record:
    return Record(source=source, kind=kind, at=1.0, step=step, policy=policy, body=body)


def test_the_last_step_stands_and_steps_add_up() -> None:
    newest = Newest()
    for step in (0, 1):
        figures = {
            "perf/step_time": 2.0,
            "perf/tokens_per_s": 50.0,
            "samples/trained": 8.0,
            "reward/mean": step,
        }
        newest.take(record("learn/0", step=step, policy="actor", **figures))
    assert newest.steps["actor"]["reward/mean"] == 1
    assert newest.trained["actor"] == Trained(steps=2, seconds=4.0, samples=16.0, tokens=200.0)


def test_a_replicas_figures_stand_until_others_come_in_their_place() -> None:
    newest = Newest()
    newest.take(record("answers/0", rows_done=4.0, in_flight=2.0))
    newest.take(record("answers/0", rows_done=6.0))
    assert newest.replicas == {"answers/0": {"rows_done": 6.0, "in_flight": 2.0}}


def test_seconds_by_activity_never_go_back_within_a_life_and_begin_anew_with_the_next() -> None:
    spent = Spent().after({"busy": 0.5, "paused": 0.5, "alive_s": 10.0})
    assert spent.seconds == {"busy": 5.0, "paused": 5.0}
    spent = spent.after({"busy": 0.25, "paused": 0.75, "alive_s": 19.5})
    assert spent.seconds == {"busy": 5.0, "paused": 14.625}
    assert spent.after({"busy": 1.0, "paused": 0.0, "alive_s": 2.0}).seconds == {"busy": 2.0, "paused": 0.0}


def test_scores_and_events_are_kept_by_who_said_them() -> None:
    newest = Newest()
    newest.take(record("held_out/0", SCORES, step=20, policy="actor", **{"eval/held_out/reward": 0.5}))
    newest.take(record("launch", "started", replica="answers/0"))
    newest.take(record("launch", "started", replica="answers/0"))
    newest.take(record("answers/0", "process_failed", reason="x"))
    newest.take(record("learn/0", SAMPLES, policy="actor", reward=0.5))
    assert newest.replicas == {} and newest.steps == {}
    assert newest.evals == {("held_out", "actor"): (20, {"eval/held_out/reward": 0.5})}
    assert newest.starts == {"answers/0": 2}
    assert newest.events == {("launch", "started"): 2, ("answers/0", "process_failed"): 1}
