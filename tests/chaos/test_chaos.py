"""A short piece of `make chaos`, and the parts of it."""

from pathlib import Path

import pytest

from tests.chaos.chaos import report
from tests.chaos.disturbed import Course, course, lost_s
from tests.chaos.plan import TARGETS, Disturbance, plan
from tests.chaos.task import PROMPTS, SAMPLES, graph

STEPS = 8
DUE = sorted(group << 16 | sample for group in range(STEPS * PROMPTS) for sample in range(SAMPLES))


@pytest.mark.slow
def test_a_run_in_which_several_things_go_wrong_ends_as_the_undisturbed_one_does(tmp_path: Path) -> None:
    file = tmp_path / "chaos.yaml"
    file.write_text(graph(steps=STEPS, runtime="local", stalled_s=2.0, watched=("answers",)))
    planned = [
        Disturbance(after_step=1, target="answers/0", kind="hang"),
        Disturbance(after_step=2, target="scores/0", kind="error"),
        Disturbance(after_step=3, target="learn/0", kind="corrupt"),
        Disturbance(after_step=4, target="learn/0", kind="full-disk"),
        Disturbance(after_step=5, target="queue", kind="full-disk"),
    ]
    assert course(file, tmp_path / "run", planned, steps=STEPS, due=DUE).wrong == ()


def test_every_kind_has_its_turn_and_some_runs_have_several() -> None:
    plans = [plan(seed, steps=24) for seed in range(60)]
    assert {each.kind for found in plans for each in found} == set(TARGETS)
    assert {len(found) for found in plans} == {1, 3}
    assert plans[7] == plan(7, steps=24)


def test_what_is_lost_is_the_pauses_beyond_what_steps_take(tmp_path: Path) -> None:
    lines = [
        f'{{"step": {step}, "time": {time}}}' for step, time in enumerate((0.0, 1.0, 2.0, 9.0, 10.0, 12.0))
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    assert lost_s(tmp_path) == 6.0


def test_losses_are_told_by_kind_beside_those_of_a_full_restart() -> None:
    def went(*kinds: str, lost: float) -> Course:
        return Course(kinds=kinds, lost_s=lost, wrong=())

    courses = [went("kill", lost=2.0), went("kill", lost=4.0), went("hang", "kill", lost=9.0), went(lost=0.0)]
    told = report(courses, went(lost=0.5), [12.0])
    assert told["lost_s"] == {
        "kill": {"median": 3.0, "worst": 4.0, "runs": 2.0},
        "several": {"median": 9.0, "worst": 9.0, "runs": 1.0},
    }
    assert told["ratios"] == {"kill": 0.25, "several": 0.75}
    assert (told["runs"], told["faults"], told["wrong"]) == (4, 4, [])
