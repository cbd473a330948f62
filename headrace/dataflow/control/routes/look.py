"""Routes that look at a launch and change nothing."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Response
from fastapi.responses import PlainTextResponse

from headrace.dataflow.control.answers import Overview, refusals, refusals_of_text
from headrace.dataflow.control.client import OFFSET
from headrace.dataflow.running.live import Live
from headrace.services.base import log_file

MOST_LINES = 10_000
MOST_READ = 1 << 20
MOST_BYTES = 1 << 53
AFTER = "Give what follows this byte of the log instead."


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
    async def log(
        node: str,
        index: int,
        answer: Response,
        lines: Annotated[int, Query(ge=1, le=MOST_LINES)] = 100,
        after: Annotated[int | None, Query(ge=0, le=MOST_BYTES, description=AFTER)] = None,
    ) -> str:
        """The last lines of a replica's log, at most 1 MiB; its end is in the header x-headrace-offset."""
        if f"{node}/{index}" not in live.replicas():
            raise HTTPException(404, f"there is no replica {node}/{index}")
        text, end = await asyncio.to_thread(_tail, log_file(run_dir, f"{node}/{index}"), lines, after)
        answer.headers[OFFSET] = str(end)
        return text

    return made


def _tail(path: Path, lines: int, after: int | None) -> tuple[str, int]:
    """The end of a log, or what follows a byte of it, and the byte that comes next; a log that has not been
    begun is empty."""
    if not path.is_file():
        return "", 0
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        begin = max(size - MOST_READ, 0) if after is None else min(after, size)
        file.seek(begin)
        data = file.read(MOST_READ)
    if after is None:
        data = b"".join(data.splitlines(keepends=True)[-lines:])
        return data.decode(errors="replace"), size
    return data.decode(errors="replace"), begin + len(data)
