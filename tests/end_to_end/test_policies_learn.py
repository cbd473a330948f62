"""The shipped dataflows of several policies learn, from random weights, under Ray as a user runs them."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.dataflow.language.parse import load
from headrace.dataflow.record.history import History
from headrace.dataflow.running.launch import launch

ENDS = 10
"""Steps over which figures are averaged."""

pytestmark = pytest.mark.slow


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What the policies of a run came to."""

    history: History

    def first(self, policy: str, metric: str) -> float:
        return self._mean(policy, metric, slice(None, ENDS))

    def last(self, policy: str, metric: str) -> float:
        return self._mean(policy, metric, slice(-ENDS, None))

    def best(self, policy: str, metric: str) -> float:
        """The best stretch: where two policies learn, each may lose ground to the other."""
        values = [value for _, value in self.history.course(policy).values(metric)]
        return max(sum(values[i : i + ENDS]) / ENDS for i in range(len(values) - ENDS + 1))

    def _mean(self, policy: str, metric: str, steps: slice) -> float:
        values = [value for _, value in self.history.course(policy).values(metric)][steps]
        return sum(values) / len(values)


def learned(directory: Path, name: str, *overrides: str) -> Learned:
    """Runs a shipped dataflow to its end."""
    assert launch(load(name, overrides).spec, output=directory / "run") == 0
    history = History.read(directory / "run")
    assert history.queue_total("lost") == history.queue_total("violations") == 0
    return Learned(history=history)


def test_a_verifier_learns_to_judge_a_solver_that_learns(tmp_path: Path) -> None:
    run = learned(tmp_path, "grpo_solver_verifier_cpu", "steps=130")
    assert run.best("solver", "reward/exact") > run.first("solver", "reward/exact") + 0.1
    assert run.best("verifier", "reward/mean") > run.first("verifier", "reward/mean") + 0.3


def test_words_grow_while_the_solver_gets_half_of_each_right(tmp_path: Path) -> None:
    run = learned(tmp_path, "grpo_self_play_cpu", "steps=90")
    assert run.best("proposer", "reward/letters") > run.first("proposer", "reward/letters") + 1.0
    assert run.best("proposer", "reward/valid") > run.first("proposer", "reward/valid")
    assert 0.2 < run.last("proposer", "reward/success") < 0.8


def test_a_student_learns_from_a_teacher_that_learns(tmp_path: Path) -> None:
    run = learned(tmp_path, "atod_copy_cpu")
    (master,) = run.history.evals.values()
    assert [line["version"] for line in master.lines] == [0, 10, 20]
    taught = master.lines[-1]["eval/master_alone/exact"]
    assert taught > 0.3
    assert run.best("student", "reward/exact") > 0.5


def test_an_actor_learns_from_a_critic_that_learns(tmp_path: Path) -> None:
    run = learned(tmp_path, "ppo_copy_cpu", "steps=90")
    assert run.best("actor", "reward/exact") > 0.4
    assert (
        run.best("critic", "critic/vf_explained_var") > run.first("critic", "critic/vf_explained_var") + 0.1
    )


def test_a_router_learns_which_specialist_is_worth_its_price(tmp_path: Path) -> None:
    run = learned(tmp_path, "grpo_routing_cpu")
    assert run.best("router", "reward/exact") > run.first("router", "reward/exact") + 0.2
    for specialist in ("short_model", "long_model"):
        assert run.best(specialist, "reward/mean") > run.first(specialist, "reward/mean") + 0.2
