"""Real `kill -9` of a live run, anywhere and at chosen points: what is committed is as in a calm run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.transferqueue.disk.chronicle import rehearse
from headrace.transferqueue.disk.journal import read_journal
from tests.transferqueue.live_run import GROUP, STEPS, UNITS

ROOT = Path(__file__).parents[2]


def live_run(directory: Path, *arguments: str) -> int:
    """Kills that were made; the run has committed all its steps."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.transferqueue.live_run", str(directory), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def committed(directory: Path) -> list[list[int]]:
    table = rehearse(read_journal(directory), directory).tables["samples"]
    assert (table.ledger.violations, table.ledger.quarantined) == (0, 0)
    return [table.ledger.committed(step).tolist() for step in range(table.ledger.step)]


def uids(steps: list[list[int]]) -> list[int]:
    return sorted(uid for step in steps for uid in step)


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "2"])
def test_sixty_kills_change_nothing_of_what_is_committed(tmp_path: Path, seed: str) -> None:
    """A09, B03: controller, producer, worker and trainer are killed at random."""
    assert live_run(tmp_path / "calm", "0", seed) == 0
    assert live_run(tmp_path / "killed", "60", seed) == 60
    calm, killed = committed(tmp_path / "calm"), committed(tmp_path / "killed")
    assert uids(killed) == uids(calm) == list(range(STEPS * UNITS * GROUP))
    assert [len(step) for step in killed] == [UNITS * GROUP] * STEPS
    assert not [path for path in (tmp_path / "killed").iterdir() if path.suffix == ".arrows"]


@pytest.mark.slow
def test_sixty_kills_of_a_run_on_two_nodes_change_nothing_of_what_is_committed(tmp_path: Path) -> None:
    """B02: the storage units of both nodes are among those that are killed."""
    assert live_run(tmp_path / "killed", "60", "4", "nodes") == 60
    killed = committed(tmp_path / "killed")
    assert uids(killed) == list(range(STEPS * UNITS * GROUP))


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", ["payload begun", "payload written", "commit begun", "committed", "replied"]
)
def test_a_death_inside_an_operation_leaves_it_whole_or_undone(tmp_path: Path, point: str) -> None:
    assert live_run(tmp_path / "queue", "8", "3", point) == 8
    assert uids(committed(tmp_path / "queue")) == list(range(STEPS * UNITS * GROUP))
