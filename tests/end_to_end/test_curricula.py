"""A source that hears is killed in the middle of a run: it draws on, nothing is lost or drawn anew."""

import json
import os
import signal
from pathlib import Path

import pytest

from headrace.services.data_position import DataPosition
from tests.end_to_end.runs import ended, replica_pid, started, until

STEPS = 16
HEARD_BEFORE = 8
"""Steps whose groups the killed one may have heard at most: those made, and those begun. How many of the last
ones are heard before the run ends is up to the machine."""
CHOSEN = (
    "prompts.dataset.letters=[2, 3, 4]",
    "prompts.sampler=dump",
    "prompts.budget={kind: trace, low: 2, high: 16}",
    "learn.prompts_per_step=16",
)


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["memory", "disk"])
def test_a_killed_source_draws_on_where_it_stood(tmp_path: Path, durability: str) -> None:
    directory = tmp_path / "run"
    chosen = (*CHOSEN, f"steps={STEPS}", f"queue.durability={durability}")
    with started("grpo_copy_cpu", *chosen, directory=directory) as process:
        until(process, lambda line: line.startswith("step 5/"))
        os.kill(replica_pid(directory, "prompts/0"), signal.SIGKILL)
        run = ended(process, directory)
    assert run.code == 0, run.err
    assert [e["replica"] for e in run.events if e["event"] == "died"] == ["prompts/0"]
    summary = run.summary
    assert (summary["steps"], summary["samples_lost"], summary["samples_duplicated"]) == (STEPS, 0, 0)
    lines = (directory / "sources" / "prompts" / "draws.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    samples = [number for record in records for number in record.get("samples", ())]
    heard = [position for record in records for position in record.get("heard", ())]
    assert len(heard) == len(set(heard)) > 16 * HEARD_BEFORE
    last = max((directory / "checkpoints").iterdir())
    data = DataPosition.of_checkpoint(last)
    used = data.done | set(range(data.next))
    assert len(used) == 16 * STEPS
    assert summary["samples_trained"] == sum(samples[position] for position in used)
