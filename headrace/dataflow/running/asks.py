"""Who asks something of a launch, and that it is not done."""

from dataclasses import dataclass


class Refusal(Exception):
    """Why an ask is not met, with the way out; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    who: str
    why: str = ""
