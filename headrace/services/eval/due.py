"""Which versions an eval scores: every so many from 0 on, and the last."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    every: int
    last: int
    """Version of the weights after the policy's last step."""

    def from_(self, version: int) -> int | None:
        """The first one due at `version` or above; None: no further one is."""
        if version > self.last:
            return None
        return min(-(-version // self.every) * self.every, self.last)

    def between(self, version: int, before: int) -> Iterator[int]:
        """Those due at `version` or above, and below `before`."""
        due = self.from_(version)
        while due is not None and due < before:
            yield due
            due = self.from_(due + 1)
