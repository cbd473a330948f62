"""A run whose trainer is two processes makes the steps of one whose trainer is one, and outlives either."""

import re
from pathlib import Path
from typing import Any

import pytest

from headrace.dataflow.record.rundir import read_jsonl
from tests.end_to_end.copying import Course, copying

SHORT = ("steps=4", "nodes.learn.prompts_per_step=4", "policies.actor.dtype=float64")
SAMPLES = 4 * 4 * 8
KILLING = Path(__file__).with_name("killing.py")


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Course:
    return copying(tmp_path_factory.mktemp("one") / "run", *SHORT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "parallel"),
    [
        ("torch", "{dp: 2, fsdp: true}"),
        ("megatron", "{tp: 2}"),
        pytest.param("megatron", "{dp: 2}", marks=pytest.mark.nightly),
        pytest.param("megatron", "{pp: 2}", marks=pytest.mark.nightly),
    ],
)
def test_two_ranks_make_the_steps_of_one_process(
    tmp_path: Path, one: Course, backend: str, parallel: str
) -> None:
    ranks = f"nodes.learn.parallel={parallel}", f"nodes.learn.backend={backend}"
    two = copying(tmp_path / "two", *SHORT, *ranks)
    for mine, theirs in zip(two.steps, one.steps, strict=True):
        assert mine["reward/mean"] == theirs["reward/mean"]
        assert mine["staleness/max"] == 0
        for figure in ("actor/loss", "actor/grad_norm"):
            assert mine[figure] == pytest.approx(theirs[figure], abs=1e-10)
    assert (two.directory / "logs" / "learn-0-rank1.log").is_file()


@pytest.mark.nightly
def test_a_rank_killed_within_a_step_is_named_and_the_run_goes_on_from_its_checkpoint(
    tmp_path: Path, one: Course
) -> None:
    two = copying(
        tmp_path / "run",
        *SHORT,
        "nodes.learn.backend=megatron",
        "nodes.learn.parallel={dp: 2}",
        "nodes.learn.checkpoint_every=2",
        "queue.durability=disk",
        f"nodes.scores.verifier={{kind: python, function: '{KILLING}:scores_and_kills', limits: null}}",
    )
    told = events(two)
    (failed,) = [event for event in told if event["event"] == "failed"]
    assert failed["replica"] == "learn/0"
    assert re.search(r"rank 1 \(process \d+\) was ended by signal 9", failed["reason"])
    assert [event["step"] for event in told if event["event"] == "rewound"] == [2]
    assert [event for event in told if event["event"] == "new_timeline"] == []
    (*_, table) = [event for event in told if event["event"] == "queue"]
    assert (table["trained"], table["duplicated"], table["lost"], table["violations"]) == (SAMPLES, 0, 0, 0)
    assert [step["step"] for step in two.steps] == [0, 1, 2, 2, 3]
    for mine in two.steps:
        assert mine["actor/grad_norm"] == pytest.approx(one.steps[mine["step"]]["actor/grad_norm"], abs=1e-10)


def events(course: Course) -> list[dict[str, Any]]:
    return list(read_jsonl(course.directory / "events.jsonl").records)
