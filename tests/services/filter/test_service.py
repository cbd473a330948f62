"""A filter over a real queue, driven by the runtime."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.services.filter.judged import PASS, reason
from headrace.services.filter.service import MAX_REASONS, Filter
from headrace.services.isolation.errors import Unusable
from headrace.services.options import RowFilterOptions
from headrace.services.replica import Replica
from headrace.services.weights import WeightStore
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
        Column(name="valid_passed", dtype="bool"),
    ),
    tasks=(
        Task(
            name="valid", reads=("prompt_ids", "response_ids", "reward", "example"), writes=("valid_passed",)
        ),
        Task(name="learn", reads=("response_ids", "valid_passed"), needs_full_group=True),
        Task(name="beside", reads=("response_ids",)),
    ),
)
FUNCTIONS = """
import os

def known(prompt, response):
    if response == "c":
        raise LookupError(f"no {response} in {prompt}")
    if response == "cc":
        os._exit(3)
    return "too  long\\nto read" if len(response) > 2 else response != "b"

def scored(reward, response_ids):
    return reward is not None and type(response_ids) is list

def counted(reward, example):
    return f"reason {example['n']}"
"""


class Letters:
    eos_token_id = LETTERS.index("$")

    def decode(self, ids: np.ndarray, *, skip_special_tokens: bool) -> str:
        return "".join(LETTERS[i] for i in ids.tolist()).replace("#", "")


async def put(client: Client, *answers: str) -> None:
    """Rows 0, 1, ... in groups of two, asked "ab", their rewards missing, 1, 2, ..."""
    uids = np.arange(len(answers))
    columns = {
        "prompt_ids": [[0, 2, 3]] * len(uids),
        "response_ids": [[LETTERS.index(letter) for letter in answer] for answer in answers],
        "reward": np.where(uids, uids, np.nan),
        "example": [{"n": uid} for uid in uids.tolist()],
    }
    await client.put("rows", uids, columns, groups=uids // 2)
    await client.end("rows")


@asynccontextmanager
async def running(
    tmp_path: Path, name: str, columns: tuple[str, ...] = ("prompt", "response")
) -> AsyncIterator[tuple[Client, Replica, Remembered]]:
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    options = RowFilterOptions(function=f"{tmp_path}/mine.py:{name}", columns=columns)
    async with (
        asyncio.timeout(60),
        queue(tmp_path, TABLE) as (address, client),
        await Client.connect(address, holder="valid/0") as own,
    ):
        report = Remembered()
        knows = context(own, report, tmp_path, options=options, node="valid")
        service = Filter(load_tokenizer=lambda _: Letters())
        yield client, Replica(service, knows, WeightStore(tmp_path / "weights")), report


def told(report: Remembered) -> dict[str, float]:
    return [line for _, line in report.lines if "filter/valid/passed" in line][-1]


async def test_rows_pass_with_a_mark_or_leave_with_a_reason(tmp_path: Path) -> None:
    async with running(tmp_path, "known") as (client, replica, report):
        await put(client, "a$", "b$", "abca", "ab", "b", "b")
        await replica.run()
        table = (await client.stats()).tables["rows"]
        assert table.dropped == {"known": 3, "too long to read": 1}
        lease = await client.lease("learn", 10, timeout_s=60.0)
        assert (lease.rows.uids.tolist(), lease.rows["valid_passed"].tolist()) == ([0, 3], [True, True])
        beside = await client.lease("beside", 10, timeout_s=60.0)
        assert beside.rows.uids.tolist() == [0, 3]
        assert told(report) == {
            "filter/valid/passed": 2.0,
            "filter/valid/dropped/known": 3.0,
            "filter/valid/dropped/too_long_to_read": 1.0,
        }


async def test_a_row_on_which_the_function_fails_is_tried_again_and_set_aside_at_last(tmp_path: Path) -> None:
    async with running(tmp_path, "known") as (client, replica, report):
        await put(client, "a", "c", "a", "cc")
        await replica.run()
        table = (await client.stats()).tables["rows"]
        assert list(table.quarantine) == [1, 3]
        assert "1 of 1 rows could not be judged; uid 1: LookupError: no c in ab" in table.quarantine[1]
        assert "the filter's process ended with code 3 while it was asked" in table.quarantine[3]
        assert (told(report), table.dropped) == ({"filter/valid/passed": 2.0}, {})


async def test_a_function_is_called_with_plain_columns_and_null_for_a_missing_number(tmp_path: Path) -> None:
    async with running(tmp_path, "scored", ("reward", "response_ids")) as (client, replica, report):
        await put(client, "a", "a", "a")
        await replica.run()
        assert told(report) == {"filter/valid/passed": 2.0, "filter/valid/dropped/scored": 1.0}


async def test_reasons_beyond_so_many_are_counted_together(tmp_path: Path) -> None:
    async with running(tmp_path, "counted", ("reward", "example")) as (client, replica, _):
        await put(client, *("a" for _ in range(MAX_REASONS + 3)))
        await replica.run()
        dropped = (await client.stats()).tables["rows"].dropped
        assert (dropped["reason 0"], dropped["other reasons"], len(dropped)) == (1, 3, MAX_REASONS + 1)


async def test_a_function_that_does_not_take_its_columns_keeps_the_filter_from_starting(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, "known", ("response",)) as (_, replica, report):
        with pytest.raises(
            Unusable, match="known cannot be called with response: missing a required argument"
        ):
            await replica.run()
        assert report.states == ["loading", "failed"]


@pytest.mark.parametrize(
    ("returned", "meant"),
    [
        (True, PASS),
        (False, "known"),
        ("too long", "too long"),
        (np.bool_(True), PASS),
        (None, None),
        ("", None),
    ],
)
def test_what_a_function_returns_passes_drops_or_is_refused(returned: Any, meant: str | None) -> None:
    if meant is None:
        with pytest.raises(TypeError, match=r"known returned .* allowed are True, False and the reason"):
            reason(returned, "known")
    else:
        assert reason(returned, "known") == meant
