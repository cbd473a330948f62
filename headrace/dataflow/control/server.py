"""Serves the control API of a live launch: HTTP on loopback, for whoever may read the run's `control.json`.

Invariant: every route asks for the launch's own token, which is made anew each time and stands in a file that
its owner alone may read; nothing listens beyond loopback.
"""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import uvicorn

from headrace.dataflow.control.app import app
from headrace.dataflow.control.door import LOOPBACK, Door
from headrace.dataflow.control.feed import Feed
from headrace.dataflow.control.target import scraped
from headrace.dataflow.running.live import Live

TOKEN_BYTES = 32
CLOSE_S = 1
"""That requests in progress get when the launch ends."""


@asynccontextmanager
async def serving(live: Live, run_dir: Path) -> AsyncIterator[Door]:
    """Serves the API of a launch on a free port of loopback, and says where in the run directory."""
    with socket.create_server((LOOPBACK, 0)) as listening:
        door = Door(
            url=f"http://{LOOPBACK}:{listening.getsockname()[1]}", token=secrets.token_urlsafe(TOKEN_BYTES)
        )
        feed = Feed(live)
        config = uvicorn.Config(
            app(live, feed, run_dir, door.token),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=CLOSE_S,
        )
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]), name="control API")
        try:
            with door.shown_in(run_dir), scraped(door, run_dir):
                yield door
        finally:
            feed.end()
            server.should_exit = True
            await asyncio.wait({serving})


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the launcher's."""
        yield
