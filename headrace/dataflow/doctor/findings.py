"""What `headrace doctor` finds: each with how things are, and, where they are not well, a way out."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Health = Literal["well", "poor", "bad"]
"""Poor: a run may suffer from it; bad: it will."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    subject: str
    health: Health
    says: str
    way_out: str = ""
    """A command, or what to do; "" where it is well."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def well(subject: str, says: str) -> Finding:
    return Finding(subject=subject, health="well", says=says)


def poor(subject: str, says: str, way_out: str) -> Finding:
    return Finding(subject=subject, health="poor", says=says, way_out=way_out)


def bad(subject: str, says: str, way_out: str) -> Finding:
    return Finding(subject=subject, health="bad", says=says, way_out=way_out)
