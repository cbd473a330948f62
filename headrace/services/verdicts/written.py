"""Verdicts as columns of their rows: the value, why there is none, and named parts."""

from collections.abc import Sequence

import numpy as np

from headrace.services.base import Output
from headrace.services.columns import reward
from headrace.services.verdicts.verdict import Score, Verdict


def written(scored: Sequence[tuple[int, Verdict]], column: str) -> Output:
    """The columns of `columns.reward(column)`; `scored`: uid and verdict of each row."""
    values, reasons, parts = [], [], []
    for _, verdict in scored:
        valid = isinstance(verdict, Score)
        values.append(verdict.value if valid else np.nan)
        reasons.append("" if valid else verdict.reason)
        parts.append(dict(verdict.parts) if valid else {})
    value, invalid, named = (each.name for each in reward(column))
    return Output(
        uids=np.array([uid for uid, _ in scored], dtype=np.int64),
        columns={value: np.array(values, dtype=np.float64), invalid: reasons, named: parts},
    )
