"""Files that ranks write each for itself: all of them are there, or every rank says which is not.

Invariant: a disk that is full costs no rank: each goes through its part to the end, all raise the same, and
saving may be tried again.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from safetensors import SafetensorError

from headrace.services.trainer.backend import NotSaved
from headrace.services.trainer.ranks.group import Ranks
from headrace.services.trainer.tally import Tally

WRITING = (OSError, SafetensorError)
"""What is raised where a file cannot be written."""


class Saving:
    """`with saving.here(): ...` around what a rank writes, then `saving.settle(ranks)` in every rank."""

    def __init__(self) -> None:
        self._failed: Exception | None = None

    @contextmanager
    def here(self) -> Iterator[None]:
        try:
            yield
        except WRITING as error:
            self._failed = self._failed or error

    def settle(self, ranks: Ranks) -> None:
        """Raises NotSaved, naming the ranks and what they met, where one could not write."""
        error = self._failed
        said = {} if error is None else {f"rank {ranks.rank}: {type(error).__name__}: {error}": 1.0}
        if faults := sorted(ranks.together(Tally(sums=said)).sums):
            raise NotSaved(f"a checkpoint could not be written; {'; '.join(faults)}") from error
