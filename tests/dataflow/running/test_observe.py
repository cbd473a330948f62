"""Telemetry from its table to the run's files."""

import asyncio
from pathlib import Path

from headrace.dataflow.record.rundir import RunDir, read_jsonl
from headrace.dataflow.record.telemetry import Telemetry
from headrace.dataflow.running.observe import DirectReport, drain, observe
from headrace.services.report import TABLE, QueueReport
from headrace.transferqueue import Client
from tests.services.bench import queue


async def test_every_record_of_every_service_is_written_once_and_then_it_ends(tmp_path: Path) -> None:
    run = RunDir.create("sort", tmp_path / "run")
    async with (
        asyncio.timeout(60),
        queue(tmp_path, TABLE) as (address, client),
        await Client.connect(address, holder="launch") as own,
    ):
        with Telemetry(run) as telemetry:
            observing = asyncio.create_task(observe(own, telemetry))
            for source in ("learn/0", "answers/0"):
                async with QueueReport(client, source) as report:
                    report.metrics({"busy": 0.5})
                    report.event("state", new="ready")
            observing.cancel()
            await asyncio.wait({observing})
            await drain(own, telemetry)
        assert (await client.stats()).tables[TABLE.name].rows == 0
    metrics, events = read_jsonl(run.metrics).records, read_jsonl(run.events).records
    assert [(line["service"], line["busy"]) for line in metrics] == [("learn/0", 0.5), ("answers/0", 0.5)]
    assert [(e["source"], e["event"], e["new"]) for e in events] == [
        ("learn/0", "state", "ready"),
        ("answers/0", "state", "ready"),
    ]


async def test_steps_keep_their_number_and_other_metrics_have_none(tmp_path: Path) -> None:
    run = RunDir.create("sort", tmp_path / "run")
    async with asyncio.timeout(60), queue(tmp_path, TABLE) as (_, client):
        async with QueueReport(client, "learn/0") as report:
            report.metrics({"reward/mean": 1.0}, step=0)
        with Telemetry(run) as telemetry:
            await drain(client, telemetry)
    assert [line.get("step") for line in read_jsonl(run.metrics).records] == [0]


def test_the_launcher_s_own_events_need_no_queue(tmp_path: Path) -> None:
    run = RunDir.create("sort", tmp_path / "run")
    with Telemetry(run) as telemetry:
        report = DirectReport(telemetry)
        report.event("run_ended", status="failed")
        report.metrics({"replicas": 2.0})
    assert [(e["source"], e["event"], e["status"]) for e in read_jsonl(run.events).records] == [
        ("launch", "run_ended", "failed")
    ]
    assert [line["replicas"] for line in read_jsonl(run.metrics).records] == [2.0]
