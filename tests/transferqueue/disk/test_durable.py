"""The journal, its replay and clients that outlive their controller."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.transferqueue import (
    Client,
    Column,
    Controller,
    ControllerUnreachable,
    JournalError,
    Origin,
    Refused,
    StepRefused,
    TableSpec,
    Task,
)
from headrace.transferqueue.disk import graph
from headrace.transferqueue.disk.journal import Journal, read_journal
from headrace.transferqueue.link.wire import pack, pack_ints, read_reply, read_request
from tests.transferqueue.disk.mortal import CLIENTS, Crash, MortalQueue
from tests.transferqueue.disk.mortal_run import Run

Make = Callable[..., Any]


def test_a_group_is_there_wholly_or_not_at_all(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(b"one")
    journal.append(b"two")
    assert read_journal(tmp_path).groups == []
    journal.commit()
    journal.append(b"three")
    journal.close()
    assert read_journal(tmp_path).groups == [b"onetwo"]


def test_a_state_stands_for_the_log_before_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(b"one")
    journal.commit()
    journal.replace(b"state")
    journal.append(b"two")
    journal.commit()
    journal.close()
    again = Journal(tmp_path)
    past = again.read()
    assert (past.state, past.groups, again.log_bytes, again.state_bytes) == (b"state", [b"two"], 3, 5)
    again.append(b"three")
    again.commit()
    assert again.read().groups == [b"two", b"three"]
    again.close()


def test_a_directory_has_one_controller(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(Refused, match="another controller serves"):
        Journal(tmp_path)
    journal.close()
    Journal(tmp_path, fsync="always").close()
    with pytest.raises(Refused, match="allowed are never, batch, always"):
        Journal(tmp_path, fsync="sometimes")  # pyright: ignore[reportArgumentType]


def test_a_snapshot_holds_no_class_but_those_of_the_state_machine() -> None:
    with pytest.raises(JournalError, match=r"pathlib\.\w+ cannot be part of a snapshot"):
        graph.dump({"path": Path("x")})
    evil = graph.dump({"a": 1}).replace(b"\x91\x81", b"")
    with pytest.raises(JournalError):
        graph.load(evil + b"\xc1")


def test_a_journal_that_does_not_give_its_replies_again_is_refused(tmp_path: Path) -> None:
    run = Run(tmp_path, 1)
    for _ in range(40):
        run.act("no")
    run.queue.chronicle.close()
    journal = Journal(tmp_path)
    groups = journal.read().groups
    journal.append(groups[-1][:-1] + bytes([groups[-1][-1] ^ 1]))
    journal.commit()
    journal.close()
    with pytest.raises(JournalError, match="does not give the reply again"):
        MortalQueue(tmp_path)


def test_torn_cells_are_found_by_their_checksum_and_their_rows_dropped(tmp_path: Path) -> None:
    run = Run(tmp_path, 2)
    run.produce()
    run.produce()
    row = next(iter(run.table.shelf.rows.values()))
    block, together = row.cells[0][0], len(row.group.rows)
    with (tmp_path / block.segment).open("r+b") as file:
        file.seek(block.offset + 4)
        file.write(b"\0\0")
    rows = len(run.table.shelf.rows)
    run.queue.restart()
    assert run.queue.recovered.dropped == {"t": list(range(together))}
    assert len(run.table.shelf.rows) == rows - together
    assert run.table.ledger.dropped == {"payload torn or lost": together}
    run.queue.chronicle.close()


@pytest.mark.parametrize("crash", ["before the commit", "after the commit"])
@pytest.mark.parametrize("seed", range(4))
def test_a_task_that_is_over_is_so_after_a_restart_and_live_again_after_another(
    tmp_path: Path, crash: Crash, seed: int
) -> None:
    run = Run(tmp_path, seed)
    for _ in range(60):
        run.random.choice([run.produce, run.lease, run.end_lease, run.train])()
    step = run.table.ledger.step
    run.queue.ask("t", "finish", {"task": "learn"}, crash)
    run.leases = {k: v for k, v in run.leases.items() if v[1] != "learn"}
    for _ in range(30):
        run.random.choice([run.produce, run.lease, run.end_lease])()
    before = run.picture()
    run.queue.restart()
    assert (run.picture(), list(run.table.over), run.table.window.is_open) == (before, ["learn"], True)
    run.queue.ask("t", "rewind", {"task": "learn", "step": step}, crash)
    assert (run.table.over, run.table.window.is_open) == ({}, False)
    before = run.picture()
    run.queue.restart()
    assert run.picture() == before
    run.queue.chronicle.close()


def test_a_queue_that_was_paused_is_so_after_a_restart_and_after_a_snapshot(tmp_path: Path) -> None:
    run = Run(tmp_path, 0)
    run.produce()
    run.queue.ask("t", "pause", {"tables": ["t"], "reason": "by ann"}, "no")
    run.queue.restart()
    assert run.queue.hub.paused == {"t": "by ann"}
    run.queue.restart()
    assert run.queue.hub.paused == {"t": "by ann"}
    run.queue.ask("t", "pause", {"tables": [], "reason": ""}, "no")
    run.lease()
    run.queue.restart()
    assert run.queue.hub.paused == {}
    run.queue.chronicle.close()


@pytest.mark.parametrize("crash", ["before the commit", "after the commit"])
@pytest.mark.parametrize("task", ["roll", "mark"])
def test_a_work_or_begin_task_is_over_and_live_again_across_restarts(
    tmp_path: Path, crash: Crash, task: str
) -> None:
    run = Run(tmp_path, 0)
    for _ in range(60):
        run.random.choice([run.produce, run.lease, run.end_lease, run.train])()
    run.queue.ask("t", "finish", {"task": task}, crash)
    run.leases = {k: v for k, v in run.leases.items() if v[1] != task}
    for _ in range(10):
        run.produce()
    before = run.picture()
    assert any(row.passed for row in run.table.shelf.rows.values())
    run.queue.restart()
    assert (run.picture(), list(run.table.over), run.table.flows[task].pending) == (before, [task], 0)
    run.queue.ask("t", "reopen", {"task": task}, crash)
    assert (run.table.over, any(row.passed for row in run.table.shelf.rows.values())) == ({}, False)
    before = run.picture()
    run.queue.restart()
    assert run.picture() == before
    run.check()
    run.queue.chronicle.close()


@pytest.mark.parametrize("crash", ["before the commit", "after the commit"])
def test_a_row_that_lost_its_group_is_gone_after_a_restart(tmp_path: Path, crash: Crash) -> None:
    """A worker that holds the row and one that fails its group die with one word, while another waits."""
    queue = MortalQueue(tmp_path)
    answer = Column(name="answer", dtype="int32")
    solved = TableSpec(
        name="solved",
        columns=(answer, Column(name="verdict", dtype="int32")),
        tasks=(Task(name="watch", reads=("answer",)), Task(name="solve", reads=("verdict",), kind="train")),
    )
    origin = Origin(table="solved", samples=1, prompts=1)
    judge = Task(name="judge", reads=("answer",))
    judged = TableSpec(name="judged", columns=(answer,), tasks=(judge,), origin=origin, max_attempts=1)
    for spec in (solved, judged):
        queue.ask("source", "create", {"spec": spec.to_wire()})
    for table, uids in (("solved", [0, 1 << 16]), ("judged", [0])):
        packed, groups = pack_ints(uids), pack_ints([uid >> 16 for uid in uids])
        fields = {"table": table, "uids": packed, "groups": groups, "columns": ["answer"], "lengths": {}}
        block = {**queue.block("source", b"cells"), "known_same": False, "timeout_s": 0.0}
        queue.ask("source", "put", {**fields, **block})
    lease = {"want": 9, "version": None, "timeout_s": 0.0}
    queue.ask("a", "lease", {"task": "watch", **lease})
    queue.ask("a", "lease", {"task": "judge", **lease})
    patient = read_request(pack([1000, 1000, "lease", {"task": "watch", **lease, "timeout_s": 60.0}]))
    queue.hub.handle(CLIENTS["b"], patient, queue.now)
    queue.ask("source", "evict", {"holder": "a", "reason": "killed"}, crash)
    queue.hub.handle(CLIENTS["b"], patient, queue.now)
    queue.commit()
    granted = read_reply(queue.replies[1000])[1]
    assert isinstance(granted, dict)
    assert granted["uids"] == pack_ints([1 << 16]), "the other row is not there"
    for _ in range(2):
        tables = queue.hub.tables
        assert list(tables["solved"].shelf.rows) == [1 << 16]
        assert tables["solved"].ledger.dropped == {
            "its group in 'judged' was lost: quarantined by task 'judge'": 1
        }
        assert tables["judged"].parent is tables["solved"]
        queue.restart()
    queue.chronicle.close()


def test_cells_that_are_torn_take_the_row_along_that_they_came_from(tmp_path: Path) -> None:
    queue = MortalQueue(tmp_path)
    column = Column(name="x", dtype="int32")
    read = Task(name="solve", reads=("x", "verdict"))
    solved = TableSpec(name="solved", columns=(column, Column(name="verdict", dtype="int32")), tasks=(read,))
    origin = Origin(table="solved", samples=1, prompts=1)
    judged = TableSpec(name="judged", columns=(column,), tasks=(Task(name="j", reads=("x",)),), origin=origin)
    for spec in (solved, judged):
        queue.ask("source", "create", {"spec": spec.to_wire()})
        uids = pack_ints([0])
        fields = {"table": spec.name, "uids": uids, "groups": uids, "columns": ["x"], "lengths": {}}
        place = queue.block("source", b"cells")
        queue.ask("source", "put", {**fields, **place, "known_same": False, "timeout_s": 0.0})
    with (tmp_path / place["segment"]).open("r+b") as file:
        file.seek(place["offset"])
        file.write(b"torn!")
    for _ in range(2):
        queue.restart()
        assert queue.hub.tables["solved"].shelf.rows == {}
        assert queue.hub.tables["solved"].ledger.dropped == {
            "its group in 'judged' was lost: payload torn or lost": 1
        }
    queue.chronicle.close()


async def test_operations_that_arrive_together_are_committed_together(
    tmp_path: Path, spec: Make, prompts: Make
) -> None:
    points: list[str] = []
    async with (
        Controller(tmp_path / "queue", durability="disk", fsync="always", fault=points.append) as controller,
        await Client.connect(controller.address, holder="c") as client,
    ):
        await client.create(spec())
        points.clear()
        puts = [client.put("samples", [uid], prompts(1), groups=[uid]) for uid in range(20)]
        await asyncio.gather(*puts)
        assert 1 <= points.count("committed") < 20


async def test_a_closed_queue_goes_on_where_it_was(tmp_path: Path, spec: Make, prompts: Make) -> None:
    directory = tmp_path / "queue"
    async with Controller(directory, durability="disk") as controller:
        address = controller.address
        client = await Client.connect(address, holder="c")
        await client.create(spec())
        await client.put("samples", range(4), prompts(4), groups=[0, 0, 1, 1])
        lease = await client.lease("roll", 2, version=0, timeout_s=60)
    async with Controller(directory, durability="disk") as controller:
        assert (controller.address, controller.recovered and controller.recovered.entries) == (address, 4)
        cells = [np.zeros(2, np.int32)] * 2
        await client.put("samples", lease.rows.uids, {"response": cells, "versions": cells}, lease=lease)
        await client.ack(lease)
        table = (await client.stats()).tables["samples"]
        assert (table.rows, table.leases, table.tasks["score"].ready) == (4, 0, 2)
        await client.create(spec(first_step=3))
        await client.close()


async def test_a_request_in_flight_is_answered_by_the_next_controller(
    tmp_path: Path, spec: Make, prompts: Make
) -> None:
    """B03: the put waits for room when the controller ends, and is done once, by the one that follows."""
    directory = tmp_path / "queue"
    first = Controller(directory, durability="disk")
    await first.start()
    async with await Client.connect(first.address, holder="c") as client:
        await client.create(spec(max_rows=2))
        await client.put("samples", [0, 1], prompts(2), groups=[0, 0])
        waiting = asyncio.create_task(client.put("samples", [2, 3], prompts(2), groups=[1, 1]))
        await asyncio.sleep(0)
        assert (await client.stats()).waiting == 1
        await first.close()
        async with Controller(directory, durability="disk"):
            await client.drop("samples", [0, 1], "make room")
            await waiting
            assert (await client.stats()).tables["samples"].created == 4
            await client.close()


async def test_a_memory_queue_that_was_restarted_says_so(tmp_path: Path) -> None:
    first = Controller(tmp_path / "queue")
    await first.start()
    client = await Client.connect(first.address, holder="c")
    await first.close()
    async with Controller(tmp_path / "queue", first.address):
        with pytest.raises(ControllerUnreachable, match="connect again"):
            await client.stats()
        await client.close()


async def test_a_replica_leases_only_once_it_was_told_of_the_timeline(
    tmp_path: Path, spec: Make, prompts: Make
) -> None:
    """B12, across a restart."""
    directory = tmp_path / "queue"
    table = spec(rewindable=True, units_per_step=1, staleness=1.0)
    async with Controller(directory, durability="disk") as controller:
        client = await Client.connect(controller.address, holder="all")
        await client.create(table)
        await client.put("samples", range(4), prompts(4), groups=range(4))
        await client.publish("actor", 0, "sum 0")
        lease = await client.lease("roll", 1, version=0, timeout_s=60)
        cells = [np.zeros(2, np.int32)]
        await client.put("samples", lease.rows.uids, {"response": cells, "versions": cells}, lease=lease)
        await client.ack(lease)
        await client.put("samples", lease.rows.uids, {"reward": [1.0]})
        batch = await client.lease("learn", 1, version=0, timeout_s=60)
        await client.commit("learn", 0, batch.rows.uids)
        assert await client.publish("actor", 1, "sum 1") is None
        await client.lease("roll", 1, version=1, timeout_s=60)
        await client.rewind("learn", 0)
    async with Controller(directory, durability="disk"):
        again = await client.lease("learn", 9, version=0, timeout_s=60)
        assert again.rows.uids.tolist() == batch.rows.uids.tolist()
        await client.commit("learn", 0, again.rows.uids)
        assert await client.publish("actor", 1, "another") == 1
        with pytest.raises(StepRefused, match="'all' was not told"):
            await client.lease("roll", 1, version=1, timeout_s=60)
        told = await client.published("actor", after=1, timeout_s=60)
        assert (told.version, told.checksum, told.timeline) == (1, "another", 1)
        assert len(await client.lease("roll", 1, version=1, timeout_s=60)) == 1
        await client.close()


async def test_a_controller_that_cannot_write_stops_and_acknowledges_nothing(
    tmp_path: Path, spec: Make
) -> None:
    controller = Controller(tmp_path / "queue", durability="disk")
    await controller.start()
    client = await Client.connect(controller.address, holder="c", timeout_s=0.5)
    assert controller._chronicle is not None
    controller._chronicle._journal._store.execute("DROP TABLE log")
    with pytest.raises(ControllerUnreachable):
        await client.create(spec())
    with pytest.raises(JournalError, match="cannot be written: no such table: log"):
        await controller.closed()
    await client.close()


def test_a_controller_ended_by_a_signal_leaves_no_process_and_no_lock(tmp_path: Path) -> None:
    script = (
        "import asyncio, pathlib, sys\n"
        "from headrace.transferqueue import Controller\n"
        "async def serve():\n"
        "    async with Controller(pathlib.Path(sys.argv[1]), durability='disk') as controller:\n"
        "        print(controller.address, flush=True)\n"
        "        await controller.closed()\n"
        "asyncio.run(serve())\n"
    )
    root = str(Path(__file__).parents[3])
    served = []
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "queue")],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": root},
        )
        assert process.stdout is not None
        served.append(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert served[0] == served[1] != ""
