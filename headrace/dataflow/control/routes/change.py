"""Routes that change a launch; each change is an event `asked` with who and why before it is made."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from headrace.dataflow.control.answers import Moved, Restarted, ScaledTo, Stopping, refusals
from headrace.dataflow.control.requests import UNKNOWN, Ask, ToScale, ToSet, Who
from headrace.dataflow.running.asks import Asker
from headrace.dataflow.running.live import Live


def routes(live: Live) -> APIRouter:
    made = APIRouter(tags=["change"], responses=refusals(403, 409, 422, 503))

    @made.post("/v1/services/{node}/scale", response_model=ScaledTo)
    async def scale(node: str, ask: ToScale, who: Who = UNKNOWN) -> dict[str, Any]:
        """Answers once the replicas added are ready and those drained are gone."""
        asker = Asker(who=who, why=ask.why)
        return asdict(await live.scale(node, ask.replicas, asker, dry_run=ask.dry_run))

    @made.post("/v1/services/{node}/restart", response_model=Restarted)
    async def restart(node: str, ask: Ask, who: Who = UNKNOWN) -> dict[str, Any]:
        """One replica after another; answers once the last is ready."""
        return {"restarted": await live.restart(node, Asker(who=who, why=ask.why))}

    @made.post("/v1/staleness", response_model=Moved)
    async def staleness(ask: ToSet, who: Who = UNKNOWN) -> dict[str, Any]:
        """Moves the knob for what is begun from now on."""
        asker = Asker(who=who, why=ask.why)
        return {"moved": await live.set_staleness(ask.staleness, asker, policy=ask.policy)}

    @made.post("/v1/stop", response_model=Stopping)
    async def stop(ask: Ask, who: Who = UNKNOWN) -> dict[str, Any]:
        """Has the run end with a checkpoint; it has not ended when this answers."""
        live.stop(Asker(who=who, why=ask.why))
        return {"stopping": True}

    return made
