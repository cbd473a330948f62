"""How long to wait before a request is repeated: as the endpoint says, or ever longer, with jitter."""

from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 60.0


def pause_s(repeat: int, retry_after: str | None, *, draw: float, now: datetime) -> float:
    """Seconds before repeat number `repeat`, counted from 0; at most LONGEST_PAUSE_S.

    `retry_after`: the header, in seconds or as a date; it is kept to, and doubling pauses apply without one.
    `draw`: uniform in [0, 1); a pause without a header is between half and all of its length, so that
    requests that failed together do not come back together.
    """
    said = None if retry_after is None else _seconds(retry_after, now)
    wait = FIRST_PAUSE_S * 2.0**repeat * (0.5 + 0.5 * draw) if said is None else said
    return min(max(wait, 0.0), LONGEST_PAUSE_S)


def _seconds(retry_after: str, now: datetime) -> float | None:
    """None where the header is neither a number nor a date."""
    if retry_after.strip().isdigit():
        return float(retry_after)
    try:
        return (parsedate_to_datetime(retry_after) - now).total_seconds()
    except (TypeError, ValueError):
        return None
