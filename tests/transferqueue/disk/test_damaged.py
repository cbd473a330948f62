"""Cells on disk that are not as they were written: nobody gets one, and who wrote them is asked again."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.transferqueue import Client, Controller, UnknownName
from headrace.transferqueue.disk.damage import turn_over
from headrace.transferqueue.errors import CellsDamaged
from headrace.transferqueue.payload.segments import SegmentReader
from headrace.transferqueue.payload.writing import SegmentWriter
from headrace.transferqueue.state.records import Block

Make = Callable[..., Any]
ANSWER = [np.full(64, 7, np.int32)] * 2
VERSIONS = [np.zeros(64, np.int32)] * 2


async def answered(client: Client) -> None:
    """Has the rows that are ready answered, in one block."""
    lease = await client.lease("roll", 2, version=0, timeout_s=60)
    cells = {"response": ANSWER, "versions": VERSIONS}
    await client.put("samples", lease.rows.uids, cells, lease=lease, ack=True)


@pytest.fixture
async def queue(tmp_path: Path, spec: Make, prompts: Make) -> Any:
    """A controller, a client that wrote two rows and answered them, and one that has read nothing."""
    async with (
        Controller(tmp_path / "queue", durability="disk") as controller,
        await Client.connect(controller.address, holder="writer") as writer,
        await Client.connect(controller.address, holder="reader") as reader,
    ):
        await writer.create(spec(lease_s=600.0))
        await writer.put("samples", [0, 1], prompts(2), groups=[0, 0])
        yield controller, writer, reader


async def test_a_damaged_answer_is_made_anew_and_no_reader_sees_it(queue: Any) -> None:
    controller, writer, reader = queue
    heard: list[tuple[str, str]] = []
    reader.on_damage = lambda table, reason: heard.append((table, reason))
    await answered(writer)
    controller.damage()
    with pytest.raises(TimeoutError, match="owed by task 'roll'"):
        await reader.lease("score", 2, timeout_s=0.0)
    ((table, reason),) = heard
    assert table == "samples"
    assert reason.startswith("rows [0, 1] cannot be read: block [")
    assert reason.endswith("is not as it was written; 2 rows are issued again and 0 are dropped")
    figures = (await reader.stats()).tables["samples"]
    assert (figures.rows, figures.lost, figures.dropped, figures.quarantined) == (2, 0, {}, 0)
    await answered(writer)
    lease = await reader.lease("score", 2, timeout_s=60)
    assert [cell.tolist() for cell in lease.rows["response"]] == [[7] * 64] * 2
    assert lease.rows.attempts.tolist() == [1, 1]


async def test_a_damaged_prompt_is_dropped_with_its_reason_since_nobody_here_can_make_it_again(
    queue: Any, prompts: Make, tmp_path: Path
) -> None:
    controller, writer, reader = queue
    (table,) = controller._hub.tables.values()
    turn_over(tmp_path / "queue", next(iter(table.shelf.rows.values())).blocks[0])
    await writer.put("samples", [2, 3], prompts(2), groups=[1, 1])
    lease = await reader.lease("roll", 4, version=0, timeout_s=60)
    assert lease.rows.uids.tolist() == [2, 3]
    figures = (await reader.stats()).tables["samples"]
    assert (figures.rows, figures.dropped, figures.lost) == (2, {"payload torn or lost": 2}, 0)


async def test_what_was_found_damaged_stays_out_after_a_restart(
    tmp_path: Path, spec: Make, prompts: Make
) -> None:
    async with (
        Controller(tmp_path / "queue", durability="disk") as controller,
        await Client.connect(controller.address, holder="writer") as writer,
    ):
        await writer.create(spec())
        await writer.put("samples", [0, 1], prompts(2), groups=[0, 0])
        await answered(writer)
        controller.damage()
        with pytest.raises(TimeoutError):
            await writer.lease("score", 2, timeout_s=0.0)
    async with (
        Controller(tmp_path / "queue", durability="disk") as controller,
        await Client.connect(controller.address, holder="reader") as reader,
    ):
        assert controller.recovered is not None and controller.recovered.dropped == {}
        await answered(reader)
        lease = await reader.lease("score", 2, timeout_s=60)
        assert len(lease) == 2


async def test_a_drill_damages_no_cells_that_nobody_can_make_again(queue: Any) -> None:
    controller, *_ = queue
    with pytest.raises(UnknownName, match="no cells that a task wrote wait to be read"):
        controller.damage()


async def test_a_block_that_was_whole_when_it_was_read_is_looked_at_again_by_the_next_lease(
    queue: Any,
) -> None:
    """Two rows in one block: it is damaged after the first was leased."""
    controller, writer, reader = queue
    await answered(writer)
    assert len(await reader.lease("score", 1, timeout_s=60)) == 1
    controller.damage()
    with pytest.raises(TimeoutError, match="owed by task 'roll'"):
        await reader.lease("score", 1, timeout_s=0.0)


def test_a_damaged_block_of_an_archive_is_an_error_and_no_cells(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "owner", segment_bytes=1 << 16, checksums=True)
    place = writer.append(pa.record_batch({"x": list(range(100))}))
    writer.close()
    reader = SegmentReader(tmp_path)
    assert reader.read(place).num_rows == 100
    turn_over(tmp_path, Block(segment=place.segment, offset=place.offset, length=place.length))
    with pytest.raises(CellsDamaged, match="is not as it was written"):
        reader.read(place)
    assert reader.read(replace(place, checksum=0)) is not None
    reader.close()
