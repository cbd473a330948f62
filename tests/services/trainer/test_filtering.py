"""Groups that are not worth training on: dropped, replaced, bounded, and the same when they come again."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headrace.algorithms.filters import (
    Overlong,
    PythonFilterOptions,
    Retokenised,
    ScoredRows,
    Verdict,
    ZeroVariance,
)
from headrace.services.data_position import DataPosition
from headrace.services.errors import TrainingError
from headrace.services.trainer.intake import Intake
from headrace.services.trainer.service import Trainer
from headrace.transferqueue import Client
from tests.services.trainer.bed import SPEC, Counting, bed

EQUAL, MIXED = (1.0, 1.0), (1.0, 0.0)
MINE = f"{__file__}:EveryOther"


class EveryOther:
    """Drops every second group that it ever sees."""

    def __init__(self) -> None:
        self.seen = 0

    def judge(self, rows: ScoredRows) -> Verdict:
        dropped = {}
        for group in np.unique(rows.groups).tolist():
            self.seen += 1
            if self.seen % 2 == 0:
                dropped[group] = "second"
        return Verdict(groups=dropped)

    def state(self) -> dict[str, object]:
        return {"seen": self.seen}

    def load_state(self, state: dict[str, object]) -> None:
        self.seen = int(str(state["seen"]))


async def test_a_step_is_filled_with_other_groups_for_those_that_were_dropped(
    tmp_path: Path, backend: Counting
) -> None:
    """A26: what is dropped leaves the counts, so that others may be begun in its place."""
    async with bed(tmp_path, filter=ZeroVariance()) as b:
        running = asyncio.create_task(b.run(steps=1))
        await b.prompts(4)
        await b.version(after=-1)
        for rewards in (MIXED, EQUAL, EQUAL, MIXED):
            await b.answer(1, 0, rewards=rewards)
        await running
        assert [uid >> 16 for uid in backend.batches[0]] == [0, 0, 3, 3]
        table = (await b.client.stats()).tables["rows"]
        assert (table.trained, table.dropped, table.violations, table.lost) == (4, {"equal_rewards": 4}, 0, 0)
        (metrics,) = [m for step, m in b.report.lines if step == 0]
        assert (metrics["group/accepted"], metrics["group/dropped/equal_rewards"]) == (2.0, 2.0)
        assert metrics["samples/trained"] == 4.0
        assert b.position(1) == DataPosition(next=4)


async def test_a_step_whose_attempts_are_used_up_stops_the_run_with_the_counts(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path, filter=ZeroVariance(), max_attempts=2) as b:
        running = asyncio.create_task(b.run(steps=1))
        await b.prompts(4)
        await b.version(after=-1)
        for rewards in (MIXED, EQUAL, EQUAL, EQUAL):
            await b.answer(1, 0, rewards=rewards)
        with pytest.raises(TrainingError, match=r"step 0: .* of 4 seen, 1 were kept .*equal_rewards 3"):
            await running
        assert (await b.client.stats()).tables["rows"].step == 0


@pytest.mark.parametrize("staleness", [0.0, 1.0])
async def test_a_smaller_batch_ends_the_step_and_strands_nothing(
    tmp_path: Path, backend: Counting, staleness: float
) -> None:
    options = {"filter": ZeroVariance(), "max_attempts": 1, "when_used_up": "train_smaller"}
    async with bed(tmp_path, replace(SPEC, staleness=staleness), **options) as b:
        running = asyncio.create_task(b.run(steps=2, staleness=staleness))
        await b.prompts(4)
        for version in (0, 1):
            await b.version(after=version - 1)
            await b.answer(1, version, rewards=MIXED)
            await b.answer(1, version, rewards=EQUAL)
        await running
        assert [[uid >> 16 for uid in batch] for batch in backend.batches] == [[0, 0], [2, 2], []]
        table = (await b.client.stats()).tables["rows"]
        assert (table.step, table.violations, table.lost, table.dropped) == (2, 0, 0, {})
        steps = [m for step, m in b.report.lines if step is not None]
        assert [m["samples/trained"] for m in steps] == [2.0, 2.0]
        assert [m["group/dropped/equal_rewards"] for m in steps] == [1.0, 1.0]
        assert b.position(2) == DataPosition(next=4)


async def test_a_smaller_batch_of_nothing_stops_the_run(tmp_path: Path, backend: Counting) -> None:
    options = {"filter": ZeroVariance(), "max_attempts": 1, "when_used_up": "train_smaller"}
    async with bed(tmp_path, **options) as b:
        running = asyncio.create_task(b.run(steps=1))
        await b.prompts(2)
        await b.version(after=-1)
        await b.answer(2, 0, rewards=EQUAL)
        with pytest.raises(TrainingError, match="0 were kept and the rest dropped"):
            await running


async def test_a_cut_off_answer_counts_for_its_group_and_is_masked_in_the_loss(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path, filter=Overlong()) as b:
        running = asyncio.create_task(b.run(steps=1))
        await b.prompts(2)
        await b.version(after=-1)
        await b.answer(1, 0, finish="length")
        await b.answer(1, 0)
        await running
        assert backend.trained == [2.0, 0.0, 2.0, 2.0]
        assert backend.credits == pytest.approx([0.5**0.5, -(0.5**0.5)] * 2, abs=2e-4)
        (metrics,) = [m for step, m in b.report.lines if step == 0]
        assert metrics["samples/masked/truncated"] == 1.0
        assert metrics["samples/trained"] == 4.0


async def test_an_answer_that_text_would_not_give_again_is_counted_and_masked_in_the_loss(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path, filter=Retokenised()) as b:
        running = asyncio.create_task(b.run(steps=1))
        await b.prompts(2)
        await b.version(after=-1)
        await b.answer(1, 0, retokenises=False)
        await b.answer(1, 0)
        await running
        assert backend.trained == [2.0, 0.0, 2.0, 2.0]
        (metrics,) = [m for step, m in b.report.lines if step == 0]
        counted = ("data/retokenisation_mismatches", "samples/masked/retokenised", "samples/trained")
        assert [metrics[name] for name in counted] == [1.0, 1.0, 4.0]


async def test_data_that_ends_while_a_filter_drops_says_what_was_dropped(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path, filter=ZeroVariance()) as b:
        running = asyncio.create_task(b.run(steps=1))
        await b.prompts(2)
        await b.client.end("rows")
        await b.version(after=-1)
        await b.answer(1, 0)
        await b.answer(1, 0, rewards=EQUAL)
        with pytest.raises(TrainingError, match=r"has ended \(the filter dropped equal_rewards 1\); set"):
            await running


async def test_steps_that_come_again_are_the_batches_that_were_committed(
    tmp_path: Path, backend: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step replaced a group, the next one was smaller; the filter judges both once more."""
    options = {"filter": ZeroVariance(), "max_attempts": 2, "when_used_up": "train_smaller"}
    async with bed(tmp_path, replace(SPEC, rewindable=True), **options) as b:

        async def covers_nothing(*_: object) -> None:
            """As if the trainer had died before its checkpoint."""

        monkeypatch.setattr(b.own, "checkpointed", covers_nothing)
        running = asyncio.create_task(b.run(steps=2))
        await b.prompts(8)
        await b.version(after=-1)
        for rewards in (EQUAL, MIXED, MIXED):
            await b.answer(1, 0, rewards=rewards)
        await b.version(after=0)
        for rewards in (EQUAL, EQUAL, EQUAL, MIXED, EQUAL):
            await b.answer(1, 1, rewards=rewards)
        await running
        first = [[uid >> 16 for uid in batch] for batch in backend.batches]
        assert first == [[1, 1, 2, 2], [6, 6], []]
        before = (await b.client.stats()).tables["rows"].dropped

        await b.client.rewind("learn", 0)
        backend.weight, backend.batches = 0, [[]]
        async with await Client.connect(b.address, holder="learn/0") as own:
            b.trainer, b.context = Trainer(), replace(b.context, client=own)
            await b.run(steps=2)
        assert [[uid >> 16 for uid in batch] for batch in backend.batches] == first
        table = (await b.client.stats()).tables["rows"]
        assert (table.step, table.dropped, table.lost, table.duplicated) == (2, before, 0, 0)


async def test_a_resume_gives_the_filter_the_state_of_its_checkpoint(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path, filter=PythonFilterOptions(path=MINE)) as b:
        running = asyncio.create_task(b.run(steps=1))
        await b.prompts(8)
        await b.version(after=-1)
        for _ in range(3):
            await b.answer(1, 0)
        await running
        assert b.values(1)["filter"] == {"seen": 3}
        b.context = replace(b.context, resume=tmp_path / "checkpoints" / "step-00000001")
        b.trainer = Trainer()
        running = asyncio.create_task(b.run(first_step=1, steps=2))
        for _ in range(4):
            await b.answer(1, 1)
        await running
        assert [[uid >> 16 for uid in batch] for batch in backend.batches] == [[0, 0, 2, 2], [4, 4, 6, 6], []]


def test_what_a_checkpoint_is_told_of_a_filter_stays_as_it_was_when_the_filter_goes_on() -> None:
    class Remembering(EveryOther):
        def __init__(self) -> None:
            self.groups: dict[str, object] = {}

        def state(self) -> dict[str, object]:
            return self.groups

    mine = Remembering()
    intake = Intake(mine, groups_per_step=1, max_attempts=9, when_used_up="stop")
    mine.groups["seen"] = [0]
    saved = intake.state()
    mine.groups["seen"] = [0, 1]
    assert saved == {"seen": [0]}
