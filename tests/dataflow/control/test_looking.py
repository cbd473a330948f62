"""The commands that look at a live run, as they are typed."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import anyio.to_thread
import pytest
from typer.testing import CliRunner, Result

from headrace.dataflow.cli import app
from headrace.dataflow.control.door import PAGE, Door
from headrace.dataflow.control.looking import pace
from headrace.dataflow.control.server import serving
from headrace.dataflow.running.live import Live
from tests.dataflow.control.standing_in import OVERVIEW, Launch


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Path]:
    (tmp_path / "graph.yaml").touch()
    (tmp_path / "logs").mkdir()
    async with serving(cast(Live, Launch(OVERVIEW)), tmp_path):
        yield tmp_path


async def typed(*command: Any) -> Result:
    """In a thread: the API answers in this one's loop."""
    return await anyio.to_thread.run_sync(CliRunner().invoke, app, [str(each) for each in command])


async def test_top_without_a_terminal_says_once_how_things_are(run: Path) -> None:
    result = await typed("top", "--run", run)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("copy  steps: actor 1/2\n")
    assert (await typed("top", "--once", "--run", run)).output == result.output


def test_the_pace_is_of_steps_between_two_looks() -> None:
    before = {"steps": {"actor": {"done": 3, "of": 9}}}
    now = {"steps": {"actor": {"done": 5, "of": 9}, "critic": {"done": 4, "of": 9}}}
    assert pace(before, now, 30.0) == {"actor": 4.0, "critic": 0.0}


async def test_the_end_of_a_log_is_printed_and_a_name_that_is_no_replica_s_refused(run: Path) -> None:
    (run / "logs" / "answers-0.log").write_text("one\ntwo\nthree\n")
    assert (await typed("logs", "answers/0", "-n", 2, "--run", run)).output == "two\nthree\n"
    wrong = await typed("logs", "answers", "--run", run)
    assert (wrong.exit_code, "name a replica, as answers/0" in wrong.output) == (2, True)


async def test_the_dashboard_s_link_lets_in_and_goes_with_the_launch(run: Path) -> None:
    door = Door.of(run)
    link = (await typed("dashboard", "--run", run)).output.strip()
    assert link.startswith(f"{door.url}/?token={door.token}&who=")
    page = door.page_in(run, "ann@desk")
    assert page == run / PAGE
    assert page.stat().st_mode & 0o777 == 0o600
    assert f"url={door.url}/?token={door.token}&amp;who=ann%40desk" in page.read_text()
