"""Cells that a disk did not take, under `fsync: always`."""

import asyncio
import errno
from pathlib import Path

import pytest

from headrace.transferqueue import Client, Controller, JournalError
from headrace.transferqueue.payload import custody
from tests.transferqueue.plain import plain, put


async def test_what_cannot_be_synced_is_never_acknowledged_and_ends_the_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk tells of what it lost once: to sync again would seem to go well."""
    failures = iter([OSError(errno.EIO, "Input/output error")])

    def sync(directory: Path, names: object) -> None:
        for error in failures:
            raise error

    async with asyncio.timeout(60):
        controller = Controller(tmp_path / "q", durability="disk", fsync="always")
        await controller.start()
        client = await Client.connect(controller.address, holder="me", timeout_s=60)
        await client.create(plain())
        monkeypatch.setattr(custody, "sync_files", sync)
        putting = asyncio.create_task(put(client, [1]))
        with pytest.raises(JournalError, match=r"cells cannot be synced: \[Errno 5\]"):
            await controller.closed()
        assert not putting.done()
        putting.cancel()
        await asyncio.wait({putting})
        async with Controller(tmp_path / "q", controller.address, durability="disk", fsync="always"):
            assert (await client.stats()).tables["plain"].created == 0
            await client.close()
