"""Any sequence of operations with the controller ending in between: what was acknowledged is there."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.transferqueue.disk.mortal import Crash
from tests.transferqueue.disk.mortal_run import Run

SEEDS = st.integers(0, 2**32)
BURST = 60


class MortalMachine(RuleBasedStateMachine):
    """`Run` notes what was acknowledged in plain sets and compares after every restart."""

    root: Path
    seed = 0
    """Added to those that are drawn, so that one drive after another goes other ways."""
    examples = operations = crashes = steps = rewinds = forks = finishes = 0

    @initialize(seed=SEEDS)
    def make(self, seed: int) -> None:
        MortalMachine.examples += 1
        self.directory = self.root / str(MortalMachine.examples)
        self.directory.mkdir()
        self.run = Run(self.directory, seed + self.seed)

    @rule(seed=SEEDS)
    def act(self, seed: int) -> None:
        self.run.random = random.Random(seed + self.seed)
        for _ in range(BURST):
            self.run.act("no")

    @rule(seed=SEEDS, crash=st.sampled_from(["before the commit", "after the commit"]))
    def end_inside_an_operation(self, seed: int, crash: Crash) -> None:
        self.run.random = random.Random(seed + self.seed)
        self.run.act(crash)

    @rule()
    def end_between_operations(self) -> None:
        self.run.restart()

    def teardown(self) -> None:
        if not hasattr(self, "run"):
            return
        kind = MortalMachine
        kind.operations += self.run.queue.asked
        kind.crashes += self.run.queue.crashes
        kind.steps += len(self.run.steps)
        kind.rewinds += self.run.rewinds
        kind.forks += self.run.forks
        kind.finishes += self.run.finishes
        self.run.queue.chronicle.close()
        shutil.rmtree(self.directory)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[type[MortalMachine]]:
    MortalMachine.root = tmp_path
    MortalMachine.operations = MortalMachine.crashes = MortalMachine.seed = 0
    yield MortalMachine


def drive(machine: type[MortalMachine], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


def test_nothing_acknowledged_is_lost_whatever_ends_when(machine: type[MortalMachine]) -> None:
    drive(machine, 8, 10)
    assert machine.operations > 0 and machine.crashes > 0


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_nothing_acknowledged_is_lost_in_100_000_operations(machine: type[MortalMachine]) -> None:
    while machine.operations < 100_000:
        machine.seed += 1
        drive(machine, 40, 30)
    assert machine.crashes > 1000
    assert machine.steps > 1000
    assert min(machine.rewinds, machine.forks, machine.finishes) > 100
