"""What is known of the replicas of a launch, from what they and the launcher say.

`Board` is pure but for who waits on it: records in, standings out.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from headrace.dataflow.record.prometheus.newest import Newest
from headrace.dataflow.record.telemetry import METRICS, STARTED, Record
from headrace.services.clock import ACTIVITIES
from headrace.services.lifecycle import State

STATE = "state"
FAILURES = ("died", "failed", "wedged", "given_up")
ENDS = ("retired", "drained", "renewed")
"""Events of the launcher that end a life of a replica, by a failure or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one replica stands."""

    replica: str
    state: State = State.STARTING
    since: float = 0.0
    """Of the state, Unix seconds."""
    pid: int | None = None
    started: float = 0.0
    """Of this life, Unix seconds."""
    restarts: int = 0
    error: str = ""
    """The last that it failed with, of whichever life."""
    shares: Mapping[str, float] | None = None
    """Of its time in this life, by activity; None before it said so."""
    told: float = 0.0
    """When it said so, Unix seconds."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Board:
    """The newest standing of every replica that a launch started."""

    def __init__(self) -> None:
        self._standings: dict[str, Standing] = {}
        self._steps: dict[str, int] = {}
        self._turn = asyncio.Event()
        self.newest = Newest()
        """Figures, as Prometheus is shown them."""

    def take(self, record: Record) -> None:
        """A record of telemetry; those that say nothing of a replica are passed over."""
        self.newest.take(record)
        body = record.body
        if record.kind == STARTED:
            life = {"pid": body["pid"], "restarts": body["restarts"], "started": record.at, "shares": None}
            self._put(str(body["replica"]), record.at, State.STARTING, **life)
        elif record.kind in FAILURES:
            self._put(str(body["replica"]), record.at, State.FAILED, error=str(body["reason"]))
        elif record.kind in ENDS:
            self._put(str(body["replica"]), record.at, State.STOPPED)
        elif record.kind == STATE:
            error = {"error": str(body["reason"])} if body["new"] == State.FAILED else {}
            self._put(record.source, record.at, State(body["new"]), **error)
        elif record.kind == METRICS and record.step is not None:
            self._steps[record.policy] = record.step + 1
        elif record.kind == METRICS and (shares := {a: body[a] for a in ACTIVITIES if a in body}):
            found = self._standings.get(record.source, Standing(replica=record.source))
            self._standings[record.source] = replace(found, shares=shares, told=record.at)

    def standings(self) -> list[Standing]:
        return [self._standings[name] for name in sorted(self._standings)]

    def steps(self) -> dict[str, int]:
        """Training steps done in this launch's count, by policy."""
        return dict(self._steps)

    def standing(self, replica: str) -> Standing | None:
        return self._standings.get(replica)

    async def reached(self, replica: str, state: State) -> None:
        """Waits until a replica is in a state; for ever, where it never is."""
        while (found := self._standings.get(replica)) is None or found.state is not state:
            await self._turn.wait()

    def _put(self, replica: str, at: float, state: State, **known: Any) -> None:
        found = self._standings.get(replica, Standing(replica=replica))
        self._standings[replica] = replace(found, state=state, since=at, **known)
        self._turn.set()
        self._turn = asyncio.Event()
