"""The application of a control API: its routes, by theme, behind one gate.

Invariant: whatever goes wrong with an ask is answered with its reason: 409 it cannot be met, 422 it is
malformed, 503 the queue is away.
"""

import json
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer

from headrace import __version__
from headrace.dataflow.control.feed import Feed
from headrace.dataflow.control.gate import Gate
from headrace.dataflow.control.routes import change, dashboard, disturb, look, pages, scrape, services
from headrace.dataflow.language.problems import GraphError
from headrace.dataflow.running.asks import Refusal
from headrace.dataflow.running.live import Live
from headrace.transferqueue import QueueError


def app(live: Live, feed: Feed, run_dir: Path, token: str) -> FastAPI:
    """A refused ask answers 409 with its reason, a queue that is away 503."""
    made = FastAPI(
        title="Headrace control",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(HTTPBearer(auto_error=False, description="The launch's, of control.json."))],
    )
    made.add_middleware(Gate, token=token)
    _answer_failures(made)
    for router in (
        look.routes(live, run_dir),
        services.routes(live),
        scrape.routes(live),
        change.routes(live),
        disturb.routes(live),
        dashboard.routes(live, feed, run_dir),
        pages.routes(),
    ):
        made.include_router(router)
    return made


class Escaped(JSONResponse):
    """What was asked may be said again whatever characters it had."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False).encode()


def _answer_failures(made: FastAPI) -> None:
    @made.exception_handler(Refusal)
    async def refused(_: Request, refusal: Refusal) -> JSONResponse:
        return Escaped({"detail": str(refusal)}, status_code=409)

    @made.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        wrong = [{"loc": list(each["loc"]), "msg": each["msg"]} for each in error.errors()]
        return Escaped({"detail": wrong}, status_code=422)

    @made.exception_handler(GraphError)
    async def no_graph(_: Request, error: GraphError) -> JSONResponse:
        return Escaped({"detail": str(error)}, status_code=422)

    @made.exception_handler(QueueError)
    async def away(_: Request, error: QueueError) -> JSONResponse:
        return Escaped({"detail": f"the queue does not answer: {error}"}, status_code=503)
