"""The source beside a real queue: a stand-in of a few lines generates and scores what it writes."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from headrace.algorithms.budgets.options import PythonBudgetOptions
from headrace.algorithms.curricula.options import PythonSamplerOptions
from headrace.services.columns import PROMPT
from headrace.services.options import CopyData, SourceOptions
from headrace.services.source.hearing import READS, task_name
from headrace.services.source.service import Source
from headrace.transferqueue import Client, Column, EndOfData, TableSpec, Task
from tests.services.bench import Remembered, queue
from tests.services.source.test_service import Letters, Table, context

SPEC = TableSpec(
    name="rows",
    columns=(*PROMPT, Column(name="reward", dtype="float64")),
    tasks=(
        Task(name="scores", reads=("prompt_ids",), writes=("reward",), needs_full_group=True),
        Task(name=task_name("prompts"), reads=READS, needs_full_group=True),
    ),
    max_rows=24,
)
SAMPLERS = Path(__file__).with_name("samplers.py")
OPTIONS = SourceOptions(
    dataset=CopyData(letters=2, size=40),
    samples_per_prompt=2,
    sampler=PythonSamplerOptions(path=f"{SAMPLERS}:Following"),
)


async def score(client: Client, until: Callable[[], bool]) -> list[int]:
    """Scores groups one at a time; the positions scored."""
    scored: list[int] = []
    with suppress(EndOfData):
        while not until():
            lease = await client.lease("scores", 1, timeout_s=60.0)
            rewards = np.linspace(0.0, 1.0, len(lease.rows))
            await client.put("rows", lease.rows.uids, {"reward": rewards}, lease=lease, ack=True)
            scored.append(int(lease.rows.groups[0]))
    return scored


async def test_rows_are_heard_of_in_whole_groups_while_more_are_written(tmp_path: Path) -> None:
    report = Remembered()
    async with queue(tmp_path, SPEC) as (_, client):
        source = Source(load_tokenizer=lambda _: Letters())
        await source.setup(context(Table(), OPTIONS, tmp_path, client=client, report=report))
        running = asyncio.ensure_future(source.run())

        def heard() -> bool:
            return any(line.get("data/prompts_heard", 0) >= 16 for _, line in report.lines)

        scored = await score(client, heard)
        running.cancel()
        await asyncio.wait({running})
        await source.close()
        assert scored == list(range(len(scored))) and len(scored) >= 16
    state = (tmp_path / "sources" / "prompts" / "state.json").read_text()
    assert '"told": [[0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7], ' in state


async def test_a_source_whose_data_ends_hears_to_the_last_row(tmp_path: Path) -> None:
    options = replace(
        OPTIONS,
        dataset=CopyData(letters=2, size=10),
        epochs=1,
        sampler=SourceOptions(dataset=CopyData()).sampler,
        budget=PythonBudgetOptions(path=f"{SAMPLERS}:ByIndex", low=1, high=2),
        shuffle=False,
    )
    async with queue(tmp_path, SPEC) as (_, client):
        source = Source(load_tokenizer=lambda _: Letters())
        await source.setup(context(Table(), options, tmp_path, client=client))
        scored, _ = await asyncio.gather(score(client, lambda: False), source.run())
        await source.close()
        table = (await client.stats()).tables["rows"]
    assert scored == [0, 1, 2, 3, 4, 5]
    assert (table.created, table.finished, table.rows, table.lost) == (9, 9, 0, 0)
