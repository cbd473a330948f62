"""A queue's directory is looked at while its controller serves and after it was closed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.dataflow.cli import main
from headrace.transferqueue import Client, Controller, JournalError
from headrace.transferqueue.disk.look import HeldRows, look

Make = Callable[..., Any]


async def fill(controller: Controller, spec: Any, prompts: Make) -> Client:
    client = await Client.connect(controller.address, holder="answers/0")
    await client.create(spec)
    await client.put("samples", range(6), prompts(6), groups=[0, 0, 1, 1, 2, 2])
    poisoned = await client.lease("roll", 1, version=0, timeout_s=60)
    await client.release(poisoned, reason="out of memory")
    await client.lease("roll", 2, version=0, timeout_s=60)
    await client.drop("samples", [5], "filtered")
    await client.publish("actor", 0, "sum")
    return client


async def test_the_queue_of_a_live_run_is_looked_at(
    tmp_path: Path, spec: Make, prompts: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "queue"
    async with Controller(directory, durability="disk") as controller:
        client = await fill(controller, spec(max_attempts=1), prompts)
        before = {
            path.name: path.stat().st_mtime_ns for path in directory.iterdir() if "shm" not in path.name
        }
        seen = look(directory)
        after = {path.name: path.stat().st_mtime_ns for path in directory.iterdir() if "shm" not in path.name}
        assert before == after
        table = seen.tables["samples"]
        assert (table.rows, table.dropped) == (4, {"filtered": 1})
        assert table.quarantine == {0: "roll: out of memory"}
        assert table.tasks["roll"].leased == 2
        assert seen.leases == (HeldRows(table="samples", task="roll", holder="answers/0", rows=2),)
        assert (seen.address, seen.versions, seen.segments) == (controller.address, {"actor": 0}, 1)
        assert main(["queue", str(tmp_path)]) == 0
        printed = capsys.readouterr().out
        assert "row 0: roll: out of memory" in printed
        assert "answers/0 holds 2 rows of samples for roll" in printed
        assert "dropped 1: filtered" in printed
        await client.close()


async def test_the_queue_of_an_ended_run_is_looked_at(tmp_path: Path, spec: Make, prompts: Make) -> None:
    directory = tmp_path / "queue"
    async with Controller(directory, durability="disk") as controller:
        client = await fill(controller, spec(max_attempts=1), prompts)
        await client.close()
    seen = look(directory)
    assert (seen.tables["samples"].rows, seen.leases) == (4, ())


def test_a_directory_without_a_queue_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(JournalError, match="holds no queue"):
        look(tmp_path)
    assert main(["queue", str(tmp_path)]) == 2
    assert "holds no queue" in capsys.readouterr().err


async def test_a_task_that_is_over_is_said_to_be(
    tmp_path: Path, spec: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "queue"
    async with Controller(directory, durability="disk") as controller:
        client = await Client.connect(controller.address, holder="t")
        await client.create(spec())
        await client.finish("learn")
        await client.close()
    assert [name for name, task in look(directory).tables["samples"].tasks.items() if task.over] == ["learn"]
    assert main(["queue", str(tmp_path)]) == 0
    assert "learn (over)" in capsys.readouterr().out
