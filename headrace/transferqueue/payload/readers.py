"""Which clients may look at a segment: those that were given an answer that names it and did not let go.

Invariant: a client takes back nobody's look but its own, and one that leaves while it may look is remembered
with the segment, since a client that was given up may be alive.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.transferqueue.errors import PayloadError


class Readers:
    """Counts answers by segment and client."""

    def __init__(self) -> None:
        self._answers: dict[str, dict[str, int]] = {}

    def hand(self, reader: str, segments: Iterable[str]) -> None:
        """An answer to `reader` names these segments, each once."""
        for segment in segments:
            answers = self._answers.setdefault(segment, {})
            answers[reader] = answers.get(reader, 0) + 1

    def let_go(self, reader: str, counts: Mapping[Any, Any]) -> list[str]:
        """`reader` is done with so many answers; returns the segments that nobody looks at any more."""
        for segment, count in counts.items():
            if type(segment) is not str or type(count) is not int or count < 1:
                raise PayloadError(f"let go of {segment!r}: {count!r}; a segment and a count above 0 are due")
        unseen = []
        for segment, count in counts.items():
            answers = self._answers.get(segment, {})
            if reader in answers:
                answers[reader] -= count
                if answers[reader] <= 0:
                    del answers[reader]
                if not answers:
                    del self._answers[segment]
                    unseen.append(segment)
        return unseen

    def leave(self, reader: str) -> list[str]:
        """The segments at which `reader` may look until it ends."""
        return [segment for segment, answers in self._answers.items() if reader in answers]

    def any(self, segment: str) -> bool:
        return segment in self._answers

    def forget(self, segment: str) -> None:
        """The segment's file is gone: who looks at it does no harm."""
        self._answers.pop(segment, None)
