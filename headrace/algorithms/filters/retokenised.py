"""Answers whose text would be tokenised otherwise: tokens of an engine that no text leads to."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from headrace.algorithms.filters.base import ScoredRows, Stateless, Verdict


@dataclass(frozen=True, kw_only=True)
class Retokenised(Stateless):
    """Masks answers whose text does not encode to their ids, reason `retokenised`; drops no group.

    The row stays in the statistics of its group: the verifier read its text, which is right.
    """

    kind: Literal["retokenised"] = "retokenised"

    def judge(self, rows: ScoredRows) -> Verdict:
        return Verdict(rows={row: "retokenised" for row in np.flatnonzero(~rows.retokenises).tolist()})
