"""A full disk under a durable queue: it shortages, says so, loses nothing and goes on."""

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.transferqueue import Client, Controller, Shortage, Stats
from headrace.transferqueue import controller as serving
from headrace.transferqueue import placing as writing
from headrace.transferqueue.disk.journal import Journal, read_journal
from headrace.transferqueue.errors import JournalFull, PayloadFull

Make = Callable[..., Any]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room is looked for more often than an operator would wait."""
    monkeypatch.setattr(serving, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(writing, "LOOK_EVERY_S", 0.01)


async def short(client: Client, *, known: int = -1) -> list[Shortage]:
    """Who has no room, once somebody has not."""
    found: list[Shortage] = []
    while not found:
        known, found = await client.shortages(known, timeout_s=60)
    return found


async def put(client: Client, prompts: Make, *uids: int) -> None:
    await client.put("samples", uids, prompts(len(uids)), groups=[uid // 2 for uid in uids])


def created(stats: Stats) -> int:
    return stats.tables["samples"].created


def test_a_group_that_found_no_room_stays_and_is_kept_once_by_the_next_commit(tmp_path: Path) -> None:
    """SQLite's own error, for a database that may have no further page."""
    journal = Journal(tmp_path)
    store = journal._store
    store.execute("PRAGMA wal_autocheckpoint=0")
    (pages,) = store.execute("PRAGMA page_count").fetchone()
    store.execute(f"PRAGMA max_page_count={pages}")
    journal.append(b"x" * 100_000)
    journal.archive("samples", b"y" * 100_000)
    for _ in range(2):
        with pytest.raises(JournalFull, match="has no room: database or disk is full") as full:
            journal.commit()
        assert full.value.needed_bytes == 200_000
        assert read_journal(tmp_path).groups == []
    store.execute("PRAGMA max_page_count=1000000")
    journal.commit()
    journal.append(b"z")
    journal.commit()
    assert read_journal(tmp_path).groups == [b"x" * 100_000, b"z"]
    assert store.execute("SELECT tbl, rows FROM archive").fetchall() == [("samples", b"y" * 100_000)]
    journal.close()


async def test_a_queue_without_room_answers_nothing_that_it_has_not_kept_and_goes_on(
    tmp_path: Path, spec: Make, prompts: Make
) -> None:
    async with (
        asyncio.timeout(60),
        Controller(tmp_path / "queue", durability="disk") as controller,
        await Client.connect(controller.address, holder="writer") as client,
        await Client.connect(controller.address, holder="looker") as looker,
    ):
        await client.create(spec())
        assert (await looker.stats()).short == []
        serial, _ = await looker.shortages(-1, timeout_s=60)
        controller.fill(True)
        putting = [asyncio.create_task(put(client, prompts, uid, uid + 1)) for uid in (0, 2, 4)]
        (found,) = await short(looker, known=serial)
        assert (found.holder, found.directory) == ("", str(tmp_path / "queue"))
        assert found.needed_bytes > 0 and found.since > 0
        assert found.reason == ("the queue's journal has no room: [Errno 28] a full disk was asked for")
        stats = await looker.stats()
        assert stats.short == [found]
        assert not any(task.done() for task in putting)
        kept = b"".join(read_journal(tmp_path / "queue").groups)
        assert b"put" not in kept
        controller.fill(False)
        await asyncio.gather(*putting)
        stats = await looker.stats()
        assert (stats.short, created(stats)) == ([], 6)
        assert stats.tables["samples"].tasks["roll"].ready == 6


async def test_what_was_not_kept_when_the_queue_ends_was_not_answered_and_is_asked_of_the_next(
    tmp_path: Path, spec: Make, prompts: Make
) -> None:
    async with asyncio.timeout(60):
        controller = Controller(tmp_path / "queue", durability="disk")
        await controller.start()
        client = await Client.connect(controller.address, holder="writer", timeout_s=60)
        await client.create(spec())
        await put(client, prompts, 0, 1)
        controller.fill(True)
        putting = asyncio.create_task(put(client, prompts, 2, 3))
        await short(client)
        await controller.close()
        assert not putting.done()
        async with Controller(tmp_path / "queue", controller.address, durability="disk"):
            await putting
            assert created(await client.stats()) == 4
            await client.close()


async def test_time_stands_still_and_who_greets_or_leaves_meanwhile_is_served_afterwards(
    tmp_path: Path, spec: Make, prompts: Make
) -> None:
    async with (
        asyncio.timeout(60),
        Controller(tmp_path / "queue", durability="disk") as controller,
        await Client.connect(controller.address, holder="looker") as looker,
    ):
        leaver = await Client.connect(controller.address, holder="leaver")
        await leaver.create(spec())
        await put(leaver, prompts, 0, 1)
        lease = await leaver.lease("roll", 2, version=0, timeout_s=60)
        controller.fill(True)
        putting = asyncio.create_task(put(looker, prompts, 2, 3))
        await short(looker)
        await looker.stats()
        stood = controller._hub.now
        greeting = asyncio.create_task(Client.connect(controller.address, holder="new", timeout_s=0.3))
        await leaver.close()
        assert len(lease) == 2
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(greeting), 0.6)
        await looker.stats()
        assert controller._hub.now == stood
        assert not greeting.done() and not putting.done()
        controller.fill(False)
        newcomer = await greeting
        await putting
        again = await newcomer.lease("roll", 4, version=0, timeout_s=60)
        assert sorted(again.rows.uids.tolist()) == [0, 1, 2, 3]
        assert again.rows.attempts.tolist() == [1] * 4
        await newcomer.close()


async def test_a_queue_that_is_started_on_a_full_disk_waits_with_what_it_recovered(
    tmp_path: Path, spec: Make, prompts: Make
) -> None:
    async with asyncio.timeout(60):
        controller = Controller(tmp_path / "queue", durability="disk")
        await controller.start()
        client = await Client.connect(controller.address, holder="writer", timeout_s=60)
        await client.create(spec())
        await put(client, prompts, 0, 1)
        await controller.close()
        again = Controller(tmp_path / "queue", controller.address, durability="disk")
        again.fill(True)
        await again.start()
        assert [each.holder for each in await short(client)] == [""]
        putting = asyncio.create_task(put(client, prompts, 2, 3))
        again.fill(False)
        await putting
        assert created(await client.stats()) == 4
        await client.close()
        await again.close()


async def test_a_client_without_room_for_its_cells_waits_with_them_and_the_queue_says_so(
    tmp_path: Path, spec: Make, prompts: Make
) -> None:
    full = False

    def fault(point: str) -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")

    async with (
        asyncio.timeout(60),
        Controller(tmp_path / "queue", durability="disk") as controller,
        await Client.connect(controller.address, holder="looker") as looker,
        await Client.connect(controller.address, holder="writer", fault=fault) as client,
    ):
        await client.create(spec())
        full = True
        putting = [asyncio.create_task(put(client, prompts, uid, uid + 1)) for uid in (0, 2)]
        (found,) = await short(looker)
        assert (found.holder, found.directory) == ("writer", str(tmp_path / "queue"))
        assert found.needed_bytes > 0 and "No space left on device" in found.reason
        assert not any(task.done() for task in putting)
        full = False
        await asyncio.gather(*putting)
        lease = await looker.lease("roll", 4, version=0, timeout_s=60)
        assert [np.asarray(cell).tolist() for cell in lease.rows["prompt"]] == [[0, 1, 2]] * 4
        await looker.release(lease, reason="seen")
        full = True
        putting = [asyncio.create_task(put(client, prompts, 4, 5))]
        await short(looker)
        putting[0].cancel()
        await asyncio.wait(putting)
        serial, found = await looker.shortages(-1, timeout_s=60)
        while found:
            serial, found = await looker.shortages(serial, timeout_s=60)


async def test_a_client_that_gives_up_as_it_says_that_it_has_no_room_is_short_no_longer(
    tmp_path: Path, spec: Make, prompts: Make
) -> None:
    full = False
    looked = asyncio.Event()

    def fault(point: str) -> None:
        if full:
            looked.set()
            raise OSError(errno.ENOSPC, "No space left on device")

    async with (
        asyncio.timeout(60),
        Controller(tmp_path / "queue", durability="disk") as controller,
        await Client.connect(controller.address, holder="writer", fault=fault) as client,
    ):
        await client.create(spec())
        full = True
        for uid in (0, 2):
            looked.clear()
            putting = asyncio.create_task(put(client, prompts, uid, uid + 1))
            await looked.wait()
            putting.cancel()
            await asyncio.wait([putting])
            assert (await client.stats()).short == []
        putting = asyncio.create_task(put(client, prompts, 4, 5))
        assert [each.holder for each in await short(client)] == ["writer"]
        full = False
        await putting


async def test_in_memory_a_full_disk_is_an_error_at_once(
    controller: Controller, spec: Make, prompts: Make
) -> None:
    def fault(point: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with await Client.connect(controller.address, holder="writer", fault=fault) as client:
        await client.create(spec())
        with pytest.raises(PayloadFull, match="has no room for"):
            await put(client, prompts, 0, 1)
