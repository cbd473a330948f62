"""The states of a replica and the edges between them; no edge leads out of STOPPED or FAILED.

    STARTING ─► LOADING ─► READY ─► DRAINING ─► STOPPED
        └──────────┴─────────┴─────────┴──────► FAILED

READY means that real output was produced at confirmed weights, not that a process answers. A replaced
replica is a new one: it starts at STARTING.
"""

from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum

from headrace.services.errors import LifecycleError, describe, first_error


class State(StrEnum):
    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


EDGES: dict[State, frozenset[State]] = {
    State.STARTING: frozenset({State.LOADING, State.STOPPED, State.FAILED}),
    State.LOADING: frozenset({State.READY, State.STOPPED, State.FAILED}),
    State.READY: frozenset({State.DRAINING, State.STOPPED, State.FAILED}),
    State.DRAINING: frozenset({State.STOPPED, State.FAILED}),
    State.STOPPED: frozenset(),
    State.FAILED: frozenset(),
}


class Lifecycle:
    """The state of one replica; each change is told to `on_change(old, new, reason)`."""

    def __init__(self, on_change: Callable[[State, State, str], None]) -> None:
        self.state = State.STARTING
        self._on_change = on_change

    def to(self, state: State, reason: str = "") -> None:
        """Raises LifecycleError where there is no such edge; staying put is no change."""
        if state is self.state:
            return
        if state not in EDGES[self.state]:
            allowed = ", ".join(sorted(EDGES[self.state])) or "none: start a new replica"
            raise LifecycleError(f"no edge from {self.state} to {state}; from here: {allowed}")
        old, self.state = self.state, state
        self._on_change(old, state, reason)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """What is raised in the block ends it: STOPPED where it was cancelled, else FAILED with the cause."""
        try:
            yield
        except CancelledError:
            self.to(State.STOPPED, "cancelled")
            raise
        except Exception as error:
            self.to(State.FAILED, describe(first_error(error)))
            raise

    @property
    def ended(self) -> bool:
        return not EDGES[self.state]
