"""How scorings ended: their shares, and whether so many failed that the service gives up.

Invariant: an answer whose scoring raised is never written. It is handed back, to be tried again; when too
large a share of the last scorings raised, the service gives up with the last cause instead of wearing every
row out.
"""

from collections import deque
from collections.abc import Sequence

from headrace.services.errors import ReplicaFailed
from headrace.services.verdicts.errors import RewardError
from headrace.services.verdicts.verdict import Score, Verdict

WINDOW = 256
"""Scorings over which shares are taken."""
MIN_SCORED = 32
"""Scorings before the share of errors can end the service."""


class Outcomes:
    """How the last WINDOW scorings ended: value, invalid or error."""

    def __init__(self, *, max_error_rate: float, role: str = "reward") -> None:
        """`role`: what the metrics are named after."""
        self._max_error_rate = max_error_rate
        self._role = role
        self._last: deque[str] = deque(maxlen=WINDOW)

    def add(self, outcome: Verdict | RewardError) -> None:
        if isinstance(outcome, RewardError):
            self._last.append("error")
        else:
            self._last.append("value" if isinstance(outcome, Score) else "invalid")

    def rates(self) -> dict[str, float]:
        """Shares of the scorings in the window."""
        return {
            f"{self._role}/error_rate": self._share("error"),
            f"{self._role}/invalid_rate": self._share("invalid"),
        }

    def raise_failed(self, failed: Sequence[tuple[int, RewardError]], of: int) -> None:
        """`failed`: uid and error of the rows of a lease of `of` that are left unwritten; none: returns.

        Raises the last error for them, ReplicaFailed where more than `max_error_rate` of MIN_SCORED or more
        scorings failed.
        """
        if not failed:
            return
        uid, last = failed[-1]
        rate = self._share("error")
        if len(self._last) >= MIN_SCORED and rate > self._max_error_rate:
            raise ReplicaFailed(
                f"{rate:.0%} of the last {len(self._last)} scorings raised, max_error_rate allows"
                f" {self._max_error_rate:.0%}; the last: {last}"
            ) from last
        raise type(last)(f"{len(failed)} of {of} answers could not be scored; uid {uid}: {last}") from last

    def _share(self, outcome: str) -> float:
        return self._last.count(outcome) / max(len(self._last), 1)
