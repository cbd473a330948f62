"""The control API of a live launch: HTTP on loopback, for whoever may read the run's `control.json`.

Invariant: every route asks for the launch's own token, which is made anew each time and stands in a file that
its owner alone may read; nothing listens beyond loopback.
"""

import asyncio
import secrets
import socket
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, Header, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, Field

from headrace.dataflow.control.door import LOOPBACK, Door
from headrace.dataflow.running.asks import Asker, Refusal
from headrace.dataflow.running.drills import QUEUE, DrillKind, Ordered
from headrace.dataflow.running.live import MOST_REPLICAS, Live
from headrace.services.base import log_file
from headrace.transferqueue import QueueError

TOKEN_BYTES = 32
MOST_LINES = 10_000
CLOSE_S = 1
"""That requests in progress get when the launch ends."""

Who = Annotated[str, Header(alias="x-headrace-who", max_length=200)]


class Ask(BaseModel, extra="forbid"):
    why: str = Field("", max_length=1000)


class ToScale(Ask):
    replicas: int = Field(ge=1, le=MOST_REPLICAS)
    dry_run: bool = False


class ToSet(Ask):
    staleness: float = Field(ge=0, allow_inf_nan=True)
    policy: str | None = None


class ToInject(Ask):
    kind: DrillKind
    factor: float = Field(10.0, gt=1, le=1000, allow_inf_nan=False)
    times: int = Field(1, ge=1, le=1000)

    def order(self, target: str) -> Ordered:
        return Ordered(target=target, kind=self.kind, factor=self.factor, times=self.times)


def app(live: Live, run_dir: Path, token: str) -> FastAPI:
    """The routes. A refused ask answers 409 with its reason, a queue that is away 503."""
    bearer = HTTPBearer(auto_error=False)

    def allowed(given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> None:
        if given is None or not secrets.compare_digest(given.credentials.encode(), token.encode()):
            raise HTTPException(401, "the token is missing or not this launch's; it stands in control.json")

    made = FastAPI(
        title="Headrace control",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(allowed)],
    )

    _answer_failures(made)
    _show(made, live, run_dir)
    _change(made, live)
    _disturb(made, live)
    return made


def _answer_failures(made: FastAPI) -> None:
    @made.exception_handler(Refusal)
    async def refused(_: Request, refusal: Refusal) -> JSONResponse:
        return JSONResponse({"detail": str(refusal)}, status_code=409)

    @made.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        wrong = [{"loc": list(each["loc"]), "msg": each["msg"]} for each in error.errors()]
        return JSONResponse({"detail": wrong}, status_code=422)

    @made.exception_handler(QueueError)
    async def away(_: Request, error: QueueError) -> JSONResponse:
        return JSONResponse({"detail": f"the queue does not answer: {error}"}, status_code=503)


def _show(made: FastAPI, live: Live, run_dir: Path) -> None:
    @made.get("/openapi.json", include_in_schema=False)
    async def schema() -> dict[str, Any]:
        return made.openapi()

    @made.get("/v1/run")
    async def overview() -> dict[str, Any]:
        """Steps by policy, the queue's tables, and how every replica stands."""
        return await live.overview()

    @made.get("/v1/services/{node}/{index}/log", response_class=PlainTextResponse)
    async def log(node: str, index: int, lines: Annotated[int, Query(ge=1, le=MOST_LINES)] = 100) -> str:
        """The last lines of a replica's log."""
        if f"{node}/{index}" not in live.replicas():
            raise HTTPException(404, f"there is no replica {node}/{index}")
        return await asyncio.to_thread(_tail, log_file(run_dir, f"{node}/{index}"), lines)


def _change(made: FastAPI, live: Live) -> None:
    @made.post("/v1/services/{node}/scale")
    async def scale(node: str, ask: ToScale, who: Who = "unknown") -> dict[str, Any]:
        """Answers once the replicas added are ready and those drained are gone."""
        asker = Asker(who=who, why=ask.why)
        return asdict(await live.scale(node, ask.replicas, asker, dry_run=ask.dry_run))

    @made.post("/v1/services/{node}/restart")
    async def restart(node: str, ask: Ask, who: Who = "unknown") -> dict[str, Any]:
        """One replica after another; answers once the last is ready."""
        return {"restarted": await live.restart(node, Asker(who=who, why=ask.why))}

    @made.post("/v1/staleness")
    async def staleness(ask: ToSet, who: Who = "unknown") -> dict[str, Any]:
        """Moves the knob for what is begun from now on."""
        asker = Asker(who=who, why=ask.why)
        return {"moved": await live.set_staleness(ask.staleness, asker, policy=ask.policy)}

    @made.post("/v1/stop")
    async def stop(ask: Ask, who: Who = "unknown") -> dict[str, Any]:
        """Has the run end with a checkpoint; it has not ended when this answers."""
        live.stop(Asker(who=who, why=ask.why))
        return {"stopping": True}


def _disturb(made: FastAPI, live: Live) -> None:
    @made.post("/v1/services/{node}/{index}/inject")
    async def inject(node: str, index: int, ask: ToInject, who: Who = "unknown") -> dict[str, Any]:
        """Has something go wrong in a replica; where drills are off, 409."""
        await live.inject(ask.order(f"{node}/{index}"), Asker(who=who, why=ask.why))
        return {"injected": ask.kind}

    @made.post("/v1/queue/inject")
    async def inject_queue(ask: ToInject, who: Who = "unknown") -> dict[str, Any]:
        """Has something go wrong in the queue's controller; where drills are off, 409."""
        await live.inject(ask.order(QUEUE), Asker(who=who, why=ask.why))
        return {"injected": ask.kind}


@asynccontextmanager
async def serving(live: Live, run_dir: Path) -> AsyncIterator[Door]:
    """Serves the API of a launch on a free port of loopback, and says where in the run directory."""
    with socket.create_server((LOOPBACK, 0)) as listening:
        door = Door(
            url=f"http://{LOOPBACK}:{listening.getsockname()[1]}", token=secrets.token_urlsafe(TOKEN_BYTES)
        )
        config = uvicorn.Config(
            app(live, run_dir, door.token),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=CLOSE_S,
        )
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]), name="control API")
        try:
            with door.shown_in(run_dir):
                yield door
        finally:
            server.should_exit = True
            await asyncio.wait({serving})


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the launcher's."""
        yield


def _tail(path: Path, lines: int) -> str:
    """Raises no error for a log that has not been begun: it is empty."""
    if not path.is_file():
        return ""
    with path.open(errors="replace") as file:
        return "".join(deque(file, maxlen=lines))
