"""Rows that have left the queue, read with the queries that docs/queue.md gives."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pytest

from headrace.dataflow.cli import main
from headrace.transferqueue import Client, Controller, Refused, UnknownName
from headrace.transferqueue.disk.archive import export, read_archive

Make = Callable[..., Any]
DOCS = (Path(__file__).parents[3] / "docs" / "queue.md").read_text()


@pytest.fixture
async def archive(tmp_path: Path, spec: Make, prompts: Make) -> Path:
    """Two steps of two rows, one row dropped, one left; rewards 0, 1, 2, 3."""
    directory = tmp_path / "queue"
    async with Controller(directory, durability="disk", archive=True) as controller:
        client = await Client.connect(controller.address, holder="all")
        await client.create(spec(units_per_step=1, staleness=1.0, tasks=spec().tasks[::2]))
        await client.put("samples", range(6), prompts(6), groups=[0, 0, 1, 1, 2, 3])
        lease = await client.lease("roll", 4, version=0, timeout_s=60)
        cells = [np.full(uid + 1, 0, np.int32) for uid in range(4)]
        await client.put("samples", range(4), {"response": cells, "versions": cells}, lease=lease)
        await client.ack(lease)
        await client.put("samples", range(4), {"reward": [0.0, 1.0, 2.0, 3.0]})
        for step in (0, 1):
            batch = await client.lease("learn", 2, version=step, timeout_s=60)
            await client.commit("learn", step, batch.rows.uids)
            await client.publish("actor", step + 1, f"sum {step}")
        await client.drop("samples", [4], "filtered")
        await client.close()
    return directory


async def test_rows_that_left_are_read_with_all_their_cells(archive: Path) -> None:
    rows = read_archive(archive, "samples").to_pydict()
    assert rows["uid"] == [0, 1, 2, 3, 4]
    assert rows["group"] == [0, 0, 1, 1, 2]
    assert rows["step"] == [0, 0, 1, 1, -1]
    assert rows["version"] == [0, 0, 0, 0, -1]
    assert rows["reward"] == [0.0, 1.0, 2.0, 3.0, None]
    assert rows["response"] == [[0], [0, 0], [0] * 3, [0] * 4, None]
    assert rows["prompt"] == [[0, 1, 2]] * 5
    with pytest.raises(UnknownName, match="there are: samples"):
        read_archive(archive, "other")


async def test_a_segment_moves_to_the_archive_once_no_row_needs_it(
    tmp_path: Path, spec: Make, prompts: Make
) -> None:
    directory = tmp_path / "queue"
    async with Controller(directory, durability="disk", archive=True) as controller:
        async with await Client.connect(controller.address, holder="all") as client:
            await client.create(spec())
            await client.put("samples", [7], prompts(1), groups=[7])
            await client.drop("samples", [7], "filtered")
        assert [path.parent.name for path in directory.rglob("*.arrows")] == ["archive"]
    assert read_archive(directory, "samples")["prompt"].to_pylist() == [[0, 1, 2]]


async def test_the_command_writes_one_file_per_table(archive: Path, tmp_path: Path) -> None:
    assert main(["queue", str(archive), "--export", str(tmp_path / "out")]) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["samples.parquet"]


def query(language: str, library: str) -> str:
    found = re.search(rf"```{language}\n(?:#|--) {library}\n(.*?)\n```", DOCS, re.DOTALL)
    assert found is not None
    return found[1]


async def test_the_query_for_pandas_gives_the_mean_reward_of_each_step(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(export(archive, tmp_path)[0].parent)
    means = eval(query("python", "pandas"), {"pandas": pandas})
    assert means.loc[0] == 0.5 and means.loc[1] == 2.5


async def test_the_query_for_polars_gives_the_mean_reward_of_each_step(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(export(archive, tmp_path)[0].parent)
    means = eval(query("python", "Polars"), {"polars": polars})
    assert means.rows() == [(-1, None), (0, 0.5), (1, 2.5)]


async def test_the_query_for_duckdb_gives_the_mean_reward_of_each_step(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(export(archive, tmp_path)[0].parent)
    found = duckdb.sql(query("sql", "DuckDB"))
    assert found is not None
    assert found.fetchall() == [(-1, None), (0, 0.5), (1, 2.5)]


def test_an_archive_in_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="needs durability disk"):
        Controller(tmp_path, archive=True)
