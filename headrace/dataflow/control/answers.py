"""What the control API answers: one model for the body of each answer, and those of refusals."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from headrace.dataflow.running.drills import DrillKind
from headrace.services.lifecycle import State

Bound = float | Literal["inf"]
"""A staleness; "inf" where there is no bound."""


class Answer(BaseModel, extra="forbid"):
    """Has the fields that it names and no others."""


class Wrong(Answer):
    """One thing that is wrong with an ask."""

    loc: list[str | int] = Field(description="Where, from the outside in.")
    msg: str


class Trouble(Answer):
    """Why something was not done, with the way out."""

    detail: str | list[Wrong]


class Steps(Answer):
    done: int
    of: int


class TaskRows(Answer):
    """Rows of a table by their state for one task."""

    waiting: int
    parked: int
    ready: int
    leased: int
    done: int
    over: bool


class Table(Answer):
    step: int
    staleness: Bound
    rows: int
    bytes: int
    oldest_age_s: float
    quarantined: int
    trained: int
    outstanding_units: int = Field(description="Begun, and not yet trained on; groups where these are whole.")
    staleness_trained: dict[int, int] = Field(description="Rows trained on, by staleness.")
    staleness_in_flight: dict[int, int] = Field(
        description="Rows begun and not yet answered, by what theirs were if they were trained on now."
    )
    staleness_in_queue: dict[int, int] = Field(description="Rows answered and not yet trained on, likewise.")
    tasks: dict[str, TaskRows]


class Waiting(Answer):
    """One wait of a replica in the queue."""

    why: str = Field(description="What is missing and who owes it.")
    since_s: float
    left_s: float


class Replica(Answer):
    replica: str
    state: State
    since: float = Field(description="Of the state, Unix seconds.")
    pid: int | None
    started: float = Field(description="Of this life, Unix seconds.")
    restarts: int
    error: str = Field(description="The last that it failed with, of whichever life.")
    shares: dict[str, float] | None = Field(description="Of its time in this life, by activity.")
    told: float = Field(description="When it said so, Unix seconds.")
    doing: str = Field(description='"" where it waits.')
    still_s: float = Field(description="Without movement.")
    waits: list[Waiting]


class Pausing(Answer):
    """That a run stands."""

    who: str
    why: str
    since: float = Field(description="Unix seconds.")


class ChangeUnderWay(Answer):
    node: str
    action: str
    who: str
    why: str
    since: float = Field(description="Unix seconds.")
    detail: dict[str, Any] = Field(description="As the event `asked` has it.")


class Short(Answer):
    """Somebody who waits for room on disk; nothing is lost, and it is tried again."""

    holder: str = Field(description='"": the queue itself, which acknowledges nothing meanwhile.')
    directory: str
    needed_bytes: int
    reason: str
    since: float = Field(description="Unix seconds.")


class Overview(Answer):
    name: str
    short: list[Short]
    paused: Pausing | None
    steps: dict[str, Steps] = Field(description="By policy.")
    tables: dict[str, Table]
    replicas: list[Replica]
    changes: list[ChangeUnderWay] = Field(description="Of services, those under way.")


class ScaledTo(Answer):
    node: str
    before: int
    after: int
    added: list[str]
    drained: list[str]
    renewed: list[str] = Field(description="Of a trainer, whose data-parallel ranks are counted.")
    done: bool = Field(description="False of a dry run.")


class Restarted(Answer):
    restarted: list[str]


class Upgraded(Answer):
    replicas: list[str] = Field(description="Of the service, from now on.")
    done: bool = Field(description="False of a dry run.")


class Cancelled(Answer):
    cancelled: str = Field(description="What was under way.")


class Resumed(Answer):
    resumed: Literal[True] = True


class Moved(Answer):
    moved: dict[str, Bound] = Field(description="By table.")


class Stopping(Answer):
    stopping: Literal[True] = True


class Injected(Answer):
    injected: DrillKind


def refusals(*codes: int) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: its refusals beside those that every route has."""
    return {code: {"model": Trouble, "description": MEANINGS[code]} for code in (401, *codes)}


def refusals_of_text(*codes: int) -> dict[int | str, dict[str, Any]]:
    """As `refusals`, of a route whose answer is text: a refusal is not."""
    trouble = {"application/json": {"schema": {"$ref": "#/components/schemas/Trouble"}}}
    return {code: {"content": trouble, "description": MEANINGS[code]} for code in (401, *codes)}


MEANINGS = {
    400: "The body is no text.",
    401: "The token is missing, or not this launch's.",
    403: "A browser asked from a page that is not of this API.",
    404: "There is no such thing.",
    409: "It cannot be met, and nothing was changed.",
    422: "The ask is malformed.",
    503: "The queue does not answer.",
}
