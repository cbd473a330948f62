"""What a row filter is: it says which groups are not trained on, which rows are masked, and why.

A filter judges and counts nothing; `Attempts` counts, so that a filter cannot starve a step in silence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from headrace.algorithms.saved import Saved


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRows:
    """Rows of whole groups, as a filter sees them; arrays are [B]."""

    groups: np.ndarray
    """int64, the prompt's id."""
    rewards: np.ndarray
    """float64, NaN where invalid."""
    truncated: np.ndarray
    """bool: the answer was cut off at its limit of tokens."""
    retokenises: np.ndarray
    """bool: the text of the answer encodes to the ids that the engine made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Groups and rows that are left out, each with its reason; what is not named is kept."""

    groups: Mapping[int, str] = field(default_factory=dict)
    """Reason by group id: its rows are dropped and give their room in the queue back."""
    rows: Mapping[int, str] = field(default_factory=dict)
    """Reason by index in the batch: the row stays in its group's statistics and is masked in the loss."""


class RowFilter(Saved, Protocol):
    def judge(self, rows: ScoredRows) -> Verdict:
        """`rows` holds whole groups."""
        ...


class Stateless:
    """A filter whose verdict depends on the rows alone."""

    def state(self) -> dict[str, object]:
        return {}

    def load_state(self, state: dict[str, object]) -> None:
        if state:
            raise ValueError(f"the saved state has {', '.join(state)}; this filter keeps none")
