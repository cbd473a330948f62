"""Routes for Prometheus: the whole launch, or one service."""

from fastapi import APIRouter, HTTPException
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from headrace.dataflow.control.answers import refusals_of_text
from headrace.dataflow.running.live import Live


class Exposition(PlainTextResponse):
    media_type = CONTENT_TYPE_PLAIN_0_0_4


def routes(live: Live) -> APIRouter:
    made = APIRouter(tags=["look"])

    @made.get("/metrics", response_class=PlainTextResponse, responses=refusals_of_text(503))
    async def metrics() -> Exposition:
        """Of the whole launch: training, replicas and the queue."""
        return Exposition(await live.metrics())

    @made.get("/metrics/{node}", response_class=PlainTextResponse, responses=refusals_of_text(404, 422))
    async def metrics_of(node: str) -> Exposition:
        """Of the replicas of one service."""
        if node not in {replica.partition("/")[0] for replica in live.replicas()}:
            raise HTTPException(404, f"there is no replica of {node}")
        return Exposition(live.metrics_of(node))

    return made
