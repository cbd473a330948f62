"""Several filters as one: a group or row has the reason of the first that leaves it out."""

from collections.abc import Sequence

from headrace.algorithms.filters.base import RowFilter, ScoredRows, Verdict
from headrace.algorithms.saved import State, check_size


class Chain:
    def __init__(self, filters: Sequence[RowFilter]) -> None:
        self._filters = tuple(filters)

    def judge(self, rows: ScoredRows) -> Verdict:
        verdicts = [each.judge(rows) for each in reversed(self._filters)]
        groups = {group: reason for verdict in verdicts for group, reason in verdict.groups.items()}
        masked = {row: reason for verdict in verdicts for row, reason in verdict.rows.items()}
        kept = {row: reason for row, reason in masked.items() if int(rows.groups[row]) not in groups}
        return Verdict(groups=groups, rows=kept)

    def state(self) -> State:
        return {"filters": [each.state() for each in self._filters]}

    def load_state(self, state: State) -> None:
        check_size("filters", len(state["filters"]), len(self._filters))
        for each, saved in zip(self._filters, state["filters"], strict=True):
            each.load_state(saved)
