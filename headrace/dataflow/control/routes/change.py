"""Routes that change a launch; each change is an event `asked` with who and why before it is made."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from headrace.dataflow.control.answers import Moved, Pausing, Resumed, Stopping, refusals
from headrace.dataflow.control.requests import UNKNOWN, Ask, ToSet, Who
from headrace.dataflow.running.asks import Asker
from headrace.dataflow.running.live import Live


def routes(live: Live) -> APIRouter:
    made = APIRouter(tags=["change"], responses=refusals(400, 403, 409, 422, 503))

    @made.post("/v1/staleness", response_model=Moved)
    async def staleness(ask: ToSet, who: Who = UNKNOWN) -> dict[str, Any]:
        """Moves the knob for what is begun from now on."""
        asker = Asker(who=who, why=ask.why)
        return {"moved": await live.set_staleness(ask.staleness, asker, policy=ask.policy)}

    @made.post("/v1/pause", response_model=Pausing)
    async def pause(ask: Ask, who: Who = UNKNOWN) -> dict[str, Any]:
        """Hands out no row from now on: each service finishes what it holds, and stands; no wait ends."""
        return asdict(await live.pause(Asker(who=who, why=ask.why)))

    @made.post("/v1/resume", response_model=Resumed)
    async def resume(ask: Ask, who: Who = UNKNOWN) -> dict[str, Any]:
        """Goes on with a run that is paused."""
        await live.resume(Asker(who=who, why=ask.why))
        return {"resumed": True}

    @made.post("/v1/stop", response_model=Stopping)
    async def stop(ask: Ask, who: Who = UNKNOWN) -> dict[str, Any]:
        """Has the run end with a checkpoint; it has not ended when this answers."""
        live.stop(Asker(who=who, why=ask.why))
        return {"stopping": True}

    return made
