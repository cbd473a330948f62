"""What an advantage is as a plug point: scored samples in, the credit of each sample or token out.

It is pure: all that it compares is in the scores it is given, whole groups of them.
"""

from typing import ClassVar, Protocol

from headrace.algorithms.base import Advantages, GroupScores


class Advantage(Protocol):
    needs_full_batch: ClassVar[bool]
    """Whether it must see the step's whole batch at once; else whole groups, as they arrive."""

    def needs(self) -> tuple[str, ...]:
        """Columns that it reads beyond reward and loss_mask."""
        ...

    def __call__(self, scores: GroupScores) -> Advantages:
        """float64: one credit per sample [B], or a list of one array per sample, [length]: one per token.

        Raises ValueError where a column is missing.
        """
        ...
