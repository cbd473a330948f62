"""What the control API is asked: one model for the body of each ask."""

from typing import Annotated

from fastapi import Header
from pydantic import BaseModel, Field

from headrace.dataflow.control.gate import LONGEST_WHO, WHO
from headrace.dataflow.running.drills import DrillKind, Ordered
from headrace.dataflow.running.service_changes import MOST_REPLICAS

Who = Annotated[
    str, Header(alias=WHO, max_length=LONGEST_WHO, description="Who asks; written into events.jsonl.")
]
UNKNOWN = "unknown"


class Ask(BaseModel, extra="forbid"):
    """Any change."""

    why: str = Field("", max_length=1000, description="Written beside it in events.jsonl.")


class ToScale(Ask):
    replicas: int = Field(ge=1, le=MOST_REPLICAS, description="Of a trainer: its data-parallel ranks.")
    dry_run: bool = Field(False, description="Say what would be done, and do nothing.")


class ToUpgrade(Ask):
    graph: str = Field(
        max_length=1_000_000, description="YAML of the whole graph, changed in this node alone."
    )
    dry_run: bool = Field(False, description="Say whether it can be done, and do nothing.")


class ToSet(Ask):
    staleness: float = Field(ge=0, allow_inf_nan=True, description='A number, or "inf" for no bound.')
    policy: str | None = Field(None, description="Of this policy alone; null: of the run.")


class ToInject(Ask):
    kind: DrillKind
    factor: float = Field(10.0, gt=1, le=1000, allow_inf_nan=False, description="Of `slow`.")
    times: int = Field(1, ge=1, le=1000, description="Of `error`.")

    def order(self, target: str) -> Ordered:
        return Ordered(target=target, kind=self.kind, factor=self.factor, times=self.times)
