"""Routes of the dashboard: its page, and what the page is filled with.

Invariant: the page takes scripts, styles and data from this API alone, which its policy tells the browser.
"""

import asyncio
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query
from fastapi import Path as Place
from fastapi.responses import FileResponse, StreamingResponse

from headrace.dataflow.control.answers import refusals
from headrace.dataflow.control.drawing import drawn
from headrace.dataflow.control.feed import Feed
from headrace.dataflow.control.views import Curves, Metrics, Picture, Sample, Samples, Stage, Way
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.record.gallery import MOST_SAMPLES, Order
from headrace.dataflow.record.tracing.read import RowKey, Traces
from headrace.dataflow.record.tracing.traced import lives_in
from headrace.dataflow.running.live import Live

PAGE: Final = Path(__file__).parent.parent / "page"
TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
)

Uid = Annotated[int, Place(ge=0, lt=2**63)]


def routes(live: Live, feed: Feed, run_dir: Path) -> APIRouter:
    made = APIRouter(tags=["dashboard"], responses=refusals(422))
    _page(made)
    _live(made, live, feed)
    _recorded(made, live)
    _traced(made, live, run_dir)
    return made


def _page(made: APIRouter) -> None:
    @made.get("/", include_in_schema=False)
    async def home() -> FileResponse:
        return _file("index.html")

    @made.get("/page/{name}", include_in_schema=False)
    async def part(name: str) -> FileResponse:
        return _file(name)


def _live(made: APIRouter, live: Live, feed: Feed) -> None:
    @made.get("/v1/watch", include_in_schema=False)
    async def watch() -> StreamingResponse:
        """Server-sent events of `headrace.dataflow.control.feed`."""
        return StreamingResponse(feed.events(), media_type="text/event-stream")

    @made.get("/v1/picture", response_model=Picture)
    async def picture() -> Picture:
        """The graph with a place for each of its parts."""
        return drawn(live.spec)


def _recorded(made: APIRouter, live: Live) -> None:
    @made.get("/v1/metrics", response_model=Metrics)
    async def metrics() -> Metrics:
        """Names of the metrics that are known, by policy."""
        return Metrics(metrics=live.seen.series.names())

    @made.get("/v1/curves", response_model=Curves)
    async def curves(policy: str, metric: Annotated[list[str], Query(max_length=64)]) -> Curves:
        """Metrics of a policy over its steps; those that are not known are left out."""
        return Curves(policy=policy, curves=live.seen.series.points(policy, metric))

    @made.get("/v1/samples", response_model=Samples)
    async def samples(
        policy: str | None = None,
        step: int | None = None,
        reward_min: Annotated[float | None, Query(allow_inf_nan=False)] = None,
        reward_max: Annotated[float | None, Query(allow_inf_nan=False)] = None,
        order: Order = "newest",
        most: Annotated[int, Query(ge=1, le=MOST_SAMPLES)] = 50,
    ) -> Samples:
        """Samples that trainers showed; the last of each policy are kept."""
        found = live.seen.gallery.found(
            most=most, policy=policy, step=step, reward_min=reward_min, reward_max=reward_max, order=order
        )
        return Samples(samples=[Sample(**sample) for sample in found])


def _traced(made: APIRouter, live: Live, run_dir: Path) -> None:
    @made.get("/v1/samples/{table}/{uid}/path", response_model=Way)
    async def way(table: str, uid: Uid) -> Way:
        """The way of a row that was trained on, from the newest traces."""
        return await asyncio.to_thread(_way, live.spec, run_dir, (table, uid))


def _way(spec: GraphSpec, run_dir: Path, row: RowKey) -> Way:
    found = lives_in(spec, Traces.near_end(run_dir, row[1]))
    stages = next((life.stages for life in found if life.row == row), ())
    return Way(stages=[Stage(name=s.name, replica=s.replica, began=s.began, ended=s.ended) for s in stages])


def _file(name: str) -> FileResponse:
    """One of the page's own."""
    file = PAGE / name
    if file.suffix not in TYPES or file.parent != PAGE or not file.is_file():
        raise HTTPException(404, f"the page has no part {name!r}")
    return FileResponse(file, media_type=TYPES[file.suffix], headers={"content-security-policy": POLICY})
