"""What is said of who has no room on disk, and that nobody counts as wedged meanwhile."""

import asyncio
from math import inf
from pathlib import Path

from headrace.dataflow.running.room_left import RoomLeft, followed
from headrace.transferqueue import Client, Controller, Shortage
from tests.services.bench import NUMBERS, Remembered


def short(holder: str) -> Shortage:
    return Shortage(holder=holder, directory="/q", needed_bytes=9, reason="it is full", since=5.0)


def test_each_is_said_once_and_all_have_their_whole_time_again_when_the_last_has_room() -> None:
    report, clock = Remembered(), iter([90.0, 100.0, 107.0])
    left = RoomLeft(report, now=lambda: next(clock))
    assert left.moving_s == inf
    left.take([short(""), short("answers/0")])
    left.take([short("answers/0")])
    assert left.moving_s == 0.0
    left.take([])
    assert left.moving_s == 7.0
    said = {"directory": "/q", "needed_bytes": 9, "reason": "it is full", "way_out": "make room in /q"}
    assert sorted(report.of("paused"), key=str) == [
        {"replica": "answers/0", **said},
        {"replica": "queue", **said},
    ]
    assert report.of("resumed") == [{"replica": "queue"}, {"replica": "answers/0"}]


async def test_the_queue_says_itself_that_it_has_no_room(tmp_path: Path) -> None:
    report = Remembered()
    async with (
        asyncio.timeout(60),
        Controller(tmp_path / "queue", durability="disk") as controller,
        await Client.connect(controller.address, holder="launch") as client,
        followed(client, report) as left,
    ):
        serial, _ = await client.shortages(-1, timeout_s=60)
        controller.fill(True)
        creating = asyncio.create_task(client.create(NUMBERS))
        serial, found = await client.shortages(serial, timeout_s=60)
        assert [each.holder for each in found] == [""]
        controller.fill(False)
        await creating
        while (await client.shortages(-1, timeout_s=60))[1] or left.short:
            await asyncio.sleep(0)
    assert [event["replica"] for event in report.of("paused")] == ["queue"]
    assert report.of("resumed") == [{"replica": "queue"}]
