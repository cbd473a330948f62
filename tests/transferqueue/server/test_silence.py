"""Clients that went without a goodbye are forgotten; those that are merely quiet are not."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.transferqueue import Column, Controller, ControllerUnreachable, TableSpec, Task
from headrace.transferqueue.disk.chronicle import rehearse
from headrace.transferqueue.disk.journal import read_journal
from headrace.transferqueue.link.wire import Arguments, Request, pack_ints, read_reply
from headrace.transferqueue.server.hub import Hub
from headrace.transferqueue.server.operations import OPERATIONS
from tests.transferqueue.disk.mortal import MortalQueue

Make = Callable[..., Any]
PATIENCE_S = 10.0
SILENT_S = 60.0
"""Six times that."""


class Quiet:
    """A hub whose clients' lines are up as `lines` says."""

    def __init__(self, directory: Path) -> None:
        self.lines: set[bytes] = set()
        self.answers: list[Any] = []
        self.hub = Hub(
            directory,
            OPERATIONS,
            lambda client, reply: self.answers.append(read_reply(reply)[1]),
            reaches=lambda client: client in self.lines,
        )
        self._ids = 0

    def ask(self, client: bytes, operation: str, now: float, **fields: Any) -> Any:
        self._ids += 1
        self.hub.handle(client, Request(self._ids, self._ids, operation, Arguments(fields)), now)
        return self.answers[-1]


@pytest.fixture
def quiet(tmp_path: Path) -> Quiet:
    quiet = Quiet(tmp_path)
    for client in (b"a", b"b"):
        quiet.ask(client, "hello", 0.0, holder=client.decode(), patience_s=PATIENCE_S)
    return quiet


def test_a_client_whose_line_is_down_is_forgotten_after_six_of_its_patiences(quiet: Quiet) -> None:
    quiet.ask(b"b", "stats", 30.0)
    assert quiet.hub.due == SILENT_S
    quiet.hub.tick(SILENT_S)
    assert list(quiet.hub.sessions) == [b"b"]
    assert quiet.hub.forgotten == 1
    assert quiet.hub.due == 30.0 + SILENT_S
    assert quiet.ask(b"b", "stats", 61.0)["forgotten"] == 1
    late = quiet.ask(b"a", "stats", 62.0)
    assert isinstance(late, ControllerUnreachable)
    assert "forgotten after a long silence" in str(late) and "connect again" in str(late)


def test_a_quiet_client_whose_line_is_up_stays(quiet: Quiet) -> None:
    quiet.lines = {b"a"}
    for round_ in range(1, 5):
        quiet.hub.tick(round_ * SILENT_S)
        assert list(quiet.hub.sessions) == [b"a"]
    quiet.lines = set()
    quiet.hub.tick(5 * SILENT_S)
    assert not quiet.hub.sessions


def test_a_client_that_waits_or_holds_a_lease_is_not_forgotten(quiet: Quiet) -> None:
    columns = (Column(name="x", dtype="int32"),)
    spec = TableSpec(name="t", columns=columns, tasks=(Task(name="eat", reads=("x",)),), lease_s=200.0)
    quiet.ask(b"a", "create", 0.0, spec=spec.to_wire())
    quiet.ask(b"b", "lease", 0.0, task="eat", want=1, timeout_s=100.0)
    quiet.hub.tick(SILENT_S)
    assert list(quiet.hub.sessions) == [b"b"], "it waits"
    (quiet.hub.directory / f"{b'b'.hex()}-000000.arrows").write_bytes(bytes(64))
    place = {"segment": "62-000000.arrows", "offset": 0, "length": 64, "checksum": 0}
    cells = {"columns": ["x"], "groups": pack_ints([1]), "lengths": {}, "known_same": False}
    quiet.ask(b"b", "put", 61.0, table="t", uids=pack_ints([1]), timeout_s=0.0, **place, **cells)
    quiet.hub.tick(61.0 + SILENT_S)
    assert [held.holder for held in quiet.hub.tables["t"].leases] == ["b"]
    assert list(quiet.hub.sessions) == [b"b"], "it holds a lease"
    quiet.hub.tick(261.0)
    quiet.hub.tick(261.0 + SILENT_S)
    assert not quiet.hub.sessions


def test_a_client_is_forgotten_in_a_replay_where_it_was(tmp_path: Path) -> None:
    queue = MortalQueue(tmp_path)
    queue.lines_are_up = False
    queue.tick(30.0)
    queue.ask("a", "stats", {})
    queue.tick(31.0)
    assert [session.holder for session in queue.hub.sessions.values()] == ["a"]
    assert list(rehearse(read_journal(tmp_path), tmp_path).sessions) == list(queue.hub.sessions)
    queue.restart()
    assert [session.holder for session in queue.hub.sessions.values()] == ["a"]
    queue.hub.look_ahead()
    assert queue.hub.due == queue.hub.now + SILENT_S, "a restart gives it the full time"
    queue.chronicle.close()


@pytest.mark.slow
async def test_a_killed_client_is_forgotten_and_an_idle_one_goes_on(
    controller: Controller, connect: Make
) -> None:
    """The controller's clock is put forward, a minute and more each time that it looks."""
    idle = await connect("idle")
    code = (
        "import sys; from headrace.transferqueue import BlockingClient\n"
        "queue = BlockingClient.connect(sys.argv[1], holder='victim')\n"
        "print('up', flush=True); sys.stdin.read()"
    )
    victim = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, controller.address, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert victim.stdout is not None
    assert await victim.stdout.readline() == b"up\n"
    assert (await idle.stats()).clients == 2
    ahead_s = 2 * SILENT_S
    controller._hub.tick(controller._now() + ahead_s)
    assert len(controller._hub.sessions) == 2, "both lines are up"
    victim.send_signal(signal.SIGKILL)
    await victim.wait()
    async with asyncio.timeout(60):
        while len(controller._hub.sessions) == 2:
            await idle.stats()
            ahead_s += 2 * SILENT_S
            controller._hub.tick(controller._now() + ahead_s)
    stats = await idle.stats()
    assert (stats.clients, stats.forgotten) == (1, 1)
