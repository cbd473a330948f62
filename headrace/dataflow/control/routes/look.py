"""Routes that look at a launch and change nothing."""

import asyncio
from collections import deque
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import PlainTextResponse

from headrace.dataflow.control.answers import Overview, refusals, refusals_of_text
from headrace.dataflow.running.live import Live
from headrace.services.base import log_file

MOST_LINES = 10_000


def routes(live: Live, run_dir: Path) -> APIRouter:
    made = APIRouter(tags=["look"])

    @made.get("/v1/run", response_model=Overview, responses=refusals(503))
    async def overview() -> dict[str, Any]:
        """Steps by policy, the queue's tables, and how every replica stands."""
        return await live.overview()

    @made.get(
        "/v1/services/{node}/{index}/log",
        response_class=PlainTextResponse,
        responses=refusals_of_text(404, 422),
    )
    async def log(node: str, index: int, lines: Annotated[int, Query(ge=1, le=MOST_LINES)] = 100) -> str:
        """The last lines of a replica's log."""
        if f"{node}/{index}" not in live.replicas():
            raise HTTPException(404, f"there is no replica {node}/{index}")
        return await asyncio.to_thread(_tail, log_file(run_dir, f"{node}/{index}"), lines)

    return made


def _tail(path: Path, lines: int) -> str:
    """Raises no error for a log that has not been begun: it is empty."""
    if not path.is_file():
        return ""
    with path.open(errors="replace") as file:
        return "".join(deque(file, maxlen=lines))
