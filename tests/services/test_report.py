"""Telemetry through the queue: nothing out of order, nothing that disturbs the service."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.services import report as reports
from headrace.services.report import NO_STEP, TABLE, QueueReport
from headrace.transferqueue import Client
from tests.services.bench import queue


async def told(client: Client) -> list[tuple[str, str, int, dict[str, object]]]:
    rows = (await client.lease("observe", 1000, timeout_s=60.0)).rows
    return list(zip(rows["source"], rows["kind"], rows["step"], rows["body"], strict=True))


async def test_records_arrive_in_order_with_their_source_and_step(tmp_path: Path) -> None:
    async with queue(tmp_path, TABLE) as (_, client):
        async with QueueReport(client, "learn/0") as report:
            report.metrics({"reward/mean": 0.5}, step=7)
            report.event("checkpoint", step=8)
            report.metrics({"busy": 0.25})
        assert await told(client) == [
            ("learn/0", "metrics", 7, {"reward/mean": 0.5}),
            ("learn/0", "checkpoint", NO_STEP, {"step": 8}),
            ("learn/0", "metrics", NO_STEP, {"busy": 0.25}),
        ]
        assert report.lost == 0


async def test_a_full_table_costs_records_which_are_counted_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reports, "PUT_TIMEOUT_S", 0.01)
    async with queue(tmp_path, replace(TABLE, max_rows=2)) as (_, client):
        report = QueueReport(client, "answers/0")
        report.event("first")
        await report.close()
        report.event("second")
        report.event("third")
        with caplog.at_level(logging.WARNING):
            await report.close()
        assert report.lost == 2
        assert caplog.messages == ["2 records of telemetry were lost: the queue was full or gone"]
        assert [kind for _, kind, _, _ in await told(client)] == ["first"]


async def test_a_queue_that_is_gone_disturbs_nobody(tmp_path: Path) -> None:
    async with queue(tmp_path, TABLE) as (address, _):
        client = await Client.connect(address, holder="answers/0")
        report = QueueReport(client, "answers/0")
        await client.close()
        report.event("late")
        await asyncio.wait_for(report.close(), 60.0)
        assert report.lost == 1


async def test_a_record_that_is_not_json_is_refused_where_it_is_made(tmp_path: Path) -> None:
    async with queue(tmp_path, TABLE) as (_, client), QueueReport(client, "answers/0") as report:
        with pytest.raises(TypeError, match="not JSON serializable"):
            report.event("odd", value={1, 2})
