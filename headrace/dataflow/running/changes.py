"""The changes of a launch that are under way, at most one of a service at a time.

Invariant: every change is an event `asked`, with who asked and why, before anything of it is done.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headrace.dataflow.running.asks import Asker, Refusal
from headrace.services.base import Report


@dataclass(slots=True, kw_only=True, eq=False)
class Change:
    """One that is under way."""

    node: str
    action: str
    asker: Asker
    since: float
    """Unix seconds."""
    detail: dict[str, Any]
    is_final: bool
    """Whether it cannot be cancelled: replicas that drain do not come back."""
    unwanted: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Set when somebody cancels it."""
    cancelled_by: str = ""

    def require_wanted(self) -> None:
        """Raises Refusal once it was cancelled."""
        if self.unwanted.is_set():
            raise Refusal(f"{self.action} of {self.node} was cancelled by {self.cancelled_by}")


class Changes:
    """Of one launch."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self._under_way: dict[str, Change] = {}

    def under_way(self) -> list[Change]:
        """The oldest first."""
        return list(self._under_way.values())

    def require_free(self, node: str) -> None:
        """Raises Refusal while a change of the service is under way."""
        if (found := self._under_way.get(node)) is not None:
            raise Refusal(
                f"{node} is being changed: {found.action}, asked by {found.asker.who}; wait for that to end, "
                f"or cancel it by `headrace cancel {node}`"
            )

    def said(self, action: str, asker: Asker, **detail: Any) -> None:
        """Of a change that is done at once."""
        self.report.event("asked", action=action, who=asker.who, why=asker.why, **detail)

    @contextmanager
    def making(
        self, node: str, action: str, asker: Asker, *, is_final: bool = False, **detail: Any
    ) -> Iterator[Change]:
        """Raises Refusal where another of the service is under way."""
        self.require_free(node)
        self.said(action, asker, node=node, **detail)
        change = Change(
            node=node, action=action, asker=asker, since=time.time(), detail=detail, is_final=is_final
        )
        self._under_way[node] = change
        try:
            yield change
        finally:
            del self._under_way[node]

    def cancel(self, node: str, asker: Asker) -> Change:
        """Has the change of a service end where it stands, or be taken back; see who makes it."""
        if (found := self._under_way.get(node)) is None:
            raise Refusal(f"no change of {node!r} is under way; `headrace ps` says what is")
        if found.is_final:
            raise Refusal(
                f"{node} drains replicas, which cannot be taken back; add others by `headrace scale`"
            )
        self.said("cancel", asker, node=node, cancelled=found.action)
        found.cancelled_by = asker.who
        found.unwanted.set()
        return found
