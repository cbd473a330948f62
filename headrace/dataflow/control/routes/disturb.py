"""Routes of drills; where the graph does not say `drills: true`, each answers 409."""

from typing import Any

from fastapi import APIRouter

from headrace.dataflow.control.answers import Injected, refusals
from headrace.dataflow.control.requests import UNKNOWN, ToInject, Who
from headrace.dataflow.running.asks import Asker
from headrace.dataflow.running.drills import QUEUE
from headrace.dataflow.running.live import Live


def routes(live: Live) -> APIRouter:
    made = APIRouter(tags=["drills"], responses=refusals(400, 403, 409, 422, 503))

    @made.post("/v1/services/{node}/{index}/inject", response_model=Injected)
    async def inject(node: str, index: int, ask: ToInject, who: Who = UNKNOWN) -> dict[str, Any]:
        """Has something go wrong in a replica."""
        await live.inject(ask.order(f"{node}/{index}"), Asker(who=who, why=ask.why))
        return {"injected": ask.kind}

    @made.post("/v1/queue/inject", response_model=Injected)
    async def inject_queue(ask: ToInject, who: Who = UNKNOWN) -> dict[str, Any]:
        """Has something go wrong in the queue's controller."""
        await live.inject(ask.order(QUEUE), Asker(who=who, why=ask.why))
        return {"injected": ask.kind}

    return made
