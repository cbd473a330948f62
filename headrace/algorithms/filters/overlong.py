"""Answers that were cut off say nothing of how they would have ended: masked, not punished."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from headrace.algorithms.filters.base import ScoredRows, Stateless, Verdict


@dataclass(frozen=True, kw_only=True)
class Overlong(Stateless):
    """Masks truncated rows, reason `truncated`: the overlong filtering of DAPO, section 3.4.

    https://arxiv.org/abs/2503.14476. The row stays in the statistics of its group. A group of which every
    row was cut off is dropped, reason `all_truncated`.
    """

    kind: Literal["overlong"] = "overlong"

    def judge(self, rows: ScoredRows) -> Verdict:
        whole = {int(group) for group in np.unique(rows.groups[~rows.truncated])}
        dropped = {int(group) for group in np.unique(rows.groups)} - whole
        masked = np.flatnonzero(rows.truncated & np.isin(rows.groups, list(whole))).tolist()
        return Verdict(
            groups={group: "all_truncated" for group in sorted(dropped)},
            rows={row: "truncated" for row in masked},
        )
