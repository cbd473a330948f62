"""Routes that change one service; of each service one change is made at a time."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from headrace.dataflow.control.answers import Cancelled, Restarted, ScaledTo, Upgraded, refusals
from headrace.dataflow.control.requests import UNKNOWN, Ask, ToScale, ToUpgrade, Who
from headrace.dataflow.language.parse import parse
from headrace.dataflow.running.asks import Asker
from headrace.dataflow.running.live import Live


def routes(live: Live) -> APIRouter:
    made = APIRouter(
        prefix="/v1/services/{node}", tags=["services"], responses=refusals(400, 403, 409, 422, 503)
    )

    @made.post("/scale", response_model=ScaledTo)
    async def scale(node: str, ask: ToScale, who: Who = UNKNOWN) -> dict[str, Any]:
        """Answers once the replicas added are ready and those drained are gone."""
        asker = Asker(who=who, why=ask.why)
        return asdict(await live.services.scale(node, ask.replicas, asker, dry_run=ask.dry_run))

    @made.post("/restart", response_model=Restarted)
    async def restart(node: str, ask: Ask, who: Who = UNKNOWN) -> dict[str, Any]:
        """One replica after another; answers once the last is ready."""
        return {"restarted": await live.services.restart(node, Asker(who=who, why=ask.why))}

    @made.post("/upgrade", response_model=Upgraded)
    async def upgrade(node: str, ask: ToUpgrade, who: Who = UNKNOWN) -> dict[str, Any]:
        """Gives the service the options that the graph has for it, one replica after another; answers once
        the last is ready. Where one does not come up, all are as they were."""
        given = parse(ask.graph, file="graph").spec
        asker = Asker(who=who, why=ask.why)
        replicas = await live.services.upgrade(node, given, asker, dry_run=ask.dry_run)
        return {"replicas": replicas, "done": not ask.dry_run}

    @made.post("/cancel", response_model=Cancelled)
    async def cancel(node: str, ask: Ask, who: Who = UNKNOWN) -> dict[str, Any]:
        """Ends a change that is under way: a scale up or an upgrade is taken back, a restart stops there."""
        return {"cancelled": live.cancel(node, Asker(who=who, why=ask.why))}

    @made.post("/{index}/drain", response_model=ScaledTo)
    async def drain(node: str, index: int, ask: Ask, who: Who = UNKNOWN) -> dict[str, Any]:
        """One replica finishes what it holds, or hands it back, and ends; answers once it is gone."""
        return asdict(await live.services.drain(f"{node}/{index}", Asker(who=who, why=ask.why)))

    return made
