"""A sink over a real queue: what is in its files, and that nothing is in them twice."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.services.errors import TransformError
from headrace.services.options import SinkOptions, TransformOptions
from headrace.services.replica import GIVE_UP_AFTER
from headrace.services.sink.formats import JSON
from headrace.services.sink.service import Sink
from headrace.transferqueue import Client, Column, TableSpec, Task
from tests.services.bench import Remembered, context, queue

LETTERS = "#$abc"
"""'$' ends an answer."""
TABLE = TableSpec(
    name="rows",
    columns=(
        Column(name="prompt_ids", dtype="list<int32>"),
        Column(name="response_ids", dtype="list<int32>"),
        Column(name="reward", dtype="float64"),
        Column(name="example", dtype="json"),
    ),
    tasks=(
        Task(name="kept", reads=("prompt_ids", "response_ids", "reward", "example")),
        Task(name="other", reads=("reward",)),
    ),
    lease_s=1.0,
)
KEPT = SinkOptions(format="parquet", columns=("prompt", "response", "response_ids", "reward", "example"))


class Told(Remembered):
    """Says when it was told metrics, which a sink does once rows are acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.told = asyncio.Event()

    def metrics(self, values: Mapping[str, float], *, step: int | None = None) -> None:
        super().metrics(values, step=step)
        self.told.set()


class Letters:
    eos_token_id = LETTERS.index("$")

    def decode(self, ids: np.ndarray, *, skip_special_tokens: bool) -> str:
        return "".join(LETTERS[i] for i in ids.tolist()).replace("#", "")


async def put(client: Client, first: int, count: int) -> None:
    """Rows `first`, ... in groups of two, each asked "#ab" and answering "ba" or "ba$"."""
    uids = np.arange(first, first + count)
    ask, answer = [0, 2, 3], [3, 2, 1]
    columns = {
        "prompt_ids": [ask] * count,
        "response_ids": [answer if uid % 2 else answer[:2] for uid in uids.tolist()],
        "reward": uids / 2,
        "example": [{"n": int(uid)} for uid in uids],
    }
    await client.put("rows", uids, columns, groups=uids // 2)


@asynccontextmanager
async def running(
    tmp_path: Path, options: SinkOptions = KEPT, **changes: Any
) -> AsyncIterator[tuple[Client, Sink, Told]]:
    """A sink that is set up; its run is the test's to start."""
    async with (
        asyncio.timeout(60),
        queue(tmp_path, TABLE) as (address, client),
        await Client.connect(address, holder="kept/0") as own,
    ):
        sink, report = Sink(load_tokenizer=lambda _: Letters()), Told()
        await sink.setup(context(own, report, tmp_path, options=options, node="kept", **changes))
        yield client, sink, report


async def whole(sink: Sink) -> None:
    try:
        await sink.run()
    finally:
        await sink.close()


def files(tmp_path: Path, ending: str = "parquet") -> list[Path]:
    return sorted((tmp_path / "sinks" / "kept").glob(f"part-*.{ending}"))


async def done(client: Client) -> int:
    return (await client.stats()).tables["rows"].tasks["kept"].done


async def test_rows_are_in_parquet_with_their_types_and_open_elsewhere(tmp_path: Path) -> None:
    async with running(tmp_path) as (client, sink, report):
        await put(client, 0, 2)
        await client.end("rows")
        await whole(sink)
        assert await done(client) == 2
        assert report.lines[-1][1]["sink/kept/rows"] == 2.0
    (path,) = files(tmp_path)
    assert pq.read_schema(path).remove_metadata() == pa.schema(
        [
            ("uid", pa.int64()),
            ("group", pa.int64()),
            ("version", pa.int64()),
            ("prompt", pa.string()),
            ("response", pa.string()),
            ("response_ids", pa.list_(pa.int32())),
            ("reward", pa.float64()),
            ("example", JSON),
        ]
    )
    asked = f"select uid, response, response_ids, example->>'n' from '{path}' order by uid"
    assert duckdb.execute(asked).fetchall() == [(0, "ba", [3, 2], "0"), (1, "ba", [3, 2, 1], "1")]
    assert pd.read_parquet(path)["reward"].tolist() == [0.0, 0.5]
    assert pl.read_parquet(path)["prompt"].to_list() == ["ab", "ab"]


async def test_rows_are_in_jsonl_as_plain_values(tmp_path: Path) -> None:
    options = SinkOptions(columns=("response", "reward", "example"), rows_per_file=2)
    async with running(tmp_path, options) as (client, sink, _):
        await put(client, 0, 4)
        await client.end("rows")
        await whole(sink)
    first, second = files(tmp_path, "jsonl")
    assert [json.loads(line) for line in first.read_text().splitlines()] == [
        {"uid": 0, "group": 0, "version": -1, "response": "ba", "reward": 0.0, "example": {"n": 0}},
        {"uid": 1, "group": 0, "version": -1, "response": "ba", "reward": 0.5, "example": {"n": 1}},
    ]
    assert duckdb.execute(f"select example.n from '{second}' order by uid").fetchall() == [(2,), (3,)]


async def test_rows_are_acknowledged_before_their_file_is_full_and_are_in_one_after_a_stop(
    tmp_path: Path,
) -> None:
    """What became ready while the sink was being stopped is kept too."""
    async with running(tmp_path) as (client, sink, report):
        run = asyncio.create_task(sink.run())
        await put(client, 0, 2)
        await report.told.wait()
        assert (await done(client), files(tmp_path)) == (2, [])
        run.cancel()
        await asyncio.wait({run})
        await put(client, 2, 6)
        await sink.close()
        assert await done(client) == 8
    assert sorted(pq.read_table(files(tmp_path)[0])["uid"].to_pylist()) == list(range(8))


async def test_a_transform_gives_what_is_kept_and_a_row_that_it_fails_on_goes_back(tmp_path: Path) -> None:
    loud = TransformOptions(
        function=f"{__name__}:loudness", columns=("response_ids",), writes={"loudness": "int64"}
    )
    options = SinkOptions(format="parquet", columns=("loudness",))
    async with running(tmp_path, options, transforms=(loud,)) as (client, sink, report):
        await put(client, 0, 2)
        await client.put("rows", [2], {**odd(), "response_ids": [[]]}, groups=[1])
        await client.end("rows")
        await whole(sink)
        table = (await client.stats()).tables["rows"]
        assert list(table.quarantine) == [2]
        assert "loudness raised on row 2 <- ValueError: silence" in table.quarantine[2]
        assert len(report.of("process_failed")) == 3
    assert [pq.read_table(path).to_pylist() for path in files(tmp_path)] == [
        [
            {"uid": 0, "group": 0, "version": -1, "loudness": 2},
            {"uid": 1, "group": 0, "version": -1, "loudness": 3},
        ]
    ]


def loudness(response_ids: np.ndarray) -> dict[str, int]:
    if not len(response_ids):
        raise ValueError("silence")
    return {"loudness": len(response_ids)}


def odd() -> dict[str, Any]:
    return {"prompt_ids": [[2]], "reward": [0.0], "example": [{}]}


async def test_a_sink_gives_up_where_no_row_can_be_kept(tmp_path: Path) -> None:
    silent = TransformOptions(
        function=f"{__name__}:loudness", columns=("response_ids",), writes={"loudness": "string"}
    )
    options = SinkOptions(columns=("loudness",))
    async with running(tmp_path, options, transforms=(silent,)) as (client, sink, report):
        await put(client, 0, 2 * GIVE_UP_AFTER)
        with pytest.raises(TransformError, match="what loudness cannot hold"):
            await whole(sink)
        assert len(report.of("process_failed")) == GIVE_UP_AFTER


OWNER = """
import asyncio, sys
from pathlib import Path
from headrace.transferqueue import Client
from tests.services.bench import Remembered, context
from tests.services.sink.test_service import KEPT, Letters
from headrace.services.sink.service import Sink
from dataclasses import replace

async def main():
    client = await Client.connect(sys.argv[1], holder="kept/0")
    sink = Sink(load_tokenizer=lambda _: Letters())
    options = replace(KEPT, rows_per_file=int(sys.argv[3]))
    await sink.setup(context(client, Remembered(), Path(sys.argv[2]), options=options, node="kept"))
    print("ready", flush=True)
    await sink.run()
    await sink.close()
    await client.close()

asyncio.run(main())
"""


@pytest.mark.slow
async def test_killed_and_started_again_a_sink_keeps_every_row_once(tmp_path: Path) -> None:
    patient = replace(TABLE, max_attempts=10)
    async with asyncio.timeout(120), queue(tmp_path, patient) as (address, client):
        command = [sys.executable, "-c", OWNER, address, str(tmp_path), "7"]
        for turn in range(3):
            with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
                assert owner.stdout is not None
                assert await asyncio.to_thread(owner.stdout.readline) == b"ready\n"
                for batch in range(5):
                    await put(client, turn * 50 + batch * 10, 10)
                owner.send_signal(signal.SIGKILL)
            await client.evict("kept/0", "killed")
        await client.end("rows")
        assert await asyncio.to_thread(subprocess.call, command, stdout=subprocess.DEVNULL) == 0
        assert await done(client) == 150
    found = [uid for path in files(tmp_path) for uid in pq.read_table(path)["uid"].to_pylist()]
    assert sorted(found) == list(range(150))
