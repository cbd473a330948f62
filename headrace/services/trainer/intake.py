"""Which of the leased groups a step trains on: a filter judges, attempts are bounded, a step is never short.

    leased ─► kept                  trained on, some answers masked
          ├─► dropped, by reason    leaves the queue, which gives its room back; another group is leased
          └─► held                  completes the step's count untrained, once its attempts are used up

Invariant: a step commits as many groups as the queue counts for it, so that a step that trains on less
leaves no sample over its bound; and a step that is gone through again drops nothing, so that its batch is
the one that was committed.
"""

from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from headrace.algorithms.filters import Attempts, FilterExhausted, RowFilter, ScoredRows, Verdict
from headrace.algorithms.saved import State
from headrace.services.errors import TrainingError
from headrace.transferqueue import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Rows of one lease, sorted."""

    kept: Rows = field(repr=False)
    """In whole groups; possibly none."""
    held: Rows | None = field(default=None, repr=False)
    masked: frozenset[int] = frozenset()
    """Uids of kept rows that stay in the statistics and are masked in the loss."""
    dropped: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Uids, int64, by reason."""


class Intake:
    """Judges the leases of one step after another."""

    def __init__(
        self,
        row_filter: RowFilter | None,
        *,
        groups_per_step: int,
        max_attempts: int,
        when_used_up: Literal["stop", "train_smaller"],
    ) -> None:
        self._filter = row_filter
        self._limits = {
            "groups_per_step": groups_per_step,
            "max_attempts": max_attempts,
            "when_used_up": when_used_up,
        }
        self.begin(0)

    def begin(self, step: int) -> None:
        self._step = step
        self._attempts = Attempts(**self._limits)
        self._held = 0
        self._closing = False
        self.masked: Counter[str] = Counter()
        """Masked rows of the step, by reason."""

    @property
    def missing(self) -> int:
        """Groups that the step still lacks; so many may be leased."""
        return self._attempts.missing - self._held

    @property
    def accepted(self) -> int:
        """Groups of the step that are trained on."""
        return self._attempts.accepted

    @property
    def rejected(self) -> Mapping[str, int]:
        """Groups that the step leaves out, by reason."""
        return self._attempts.rejected

    @property
    def judges(self) -> bool:
        """Whether there is a filter, which may be a user's and slow."""
        return self._filter is not None

    def take(self, rows: Rows, *, again: bool) -> Judged:
        """Sorts the rows of a lease; `again`: of a step that was committed before.

        Raises TrainingError, with the counts by reason, where attempts are used up and the run is to stop.
        """
        groups = len(np.unique(rows.groups))
        if self._filter is None:
            self._attempts.count(groups, Verdict())
            return Judged(kept=rows)
        verdict = self._filter.judge(_scored(rows))
        self._attempts.count(groups, verdict)
        holding = again or self._closing or self._is_used_up()
        self._held += len(verdict.groups) if holding else 0
        out = np.isin(rows.groups, list(verdict.groups))
        masked = {row: reason for row, reason in verdict.rows.items() if not out[row]}
        self.masked.update(masked.values())
        return Judged(
            kept=rows.select(np.flatnonzero(~out)) if out.any() else rows,
            held=rows.select(np.flatnonzero(out)) if holding and out.any() else None,
            masked=frozenset(int(rows.uids[row]) for row in masked),
            dropped={} if holding else _uids_by_reason(rows, verdict.groups),
        )

    def counts(self) -> str:
        """What the step left out, for messages; empty where it left out nothing."""
        reasons = ", ".join(f"{reason} {groups}" for reason, groups in sorted(self.rejected.items()))
        return f" (the filter dropped {reasons})" if reasons else ""

    def state(self) -> State:
        """A copy of the filter's, since a checkpoint is written beside later steps; it is of a committed one,
        which has no attempts left over."""
        return {} if self._filter is None else deepcopy(self._filter.state())

    def load_state(self, state: State) -> None:
        if self._filter is not None:
            self._filter.load_state(state)

    def _is_used_up(self) -> bool:
        try:
            self._closing = self._attempts.decide() == "train_smaller"
        except FilterExhausted as error:
            raise TrainingError(f"step {self._step}: {error}") from error
        return self._closing


def _scored(rows: Rows) -> ScoredRows:
    return ScoredRows(
        groups=rows.groups,
        rewards=np.asarray(rows["reward"], dtype=np.float64),
        truncated=np.array([reason == "length" for reason in rows["finish_reason"]]),
        retokenises=np.asarray(rows["retokenises"], dtype=bool),
    )


def _uids_by_reason(rows: Rows, groups: Mapping[int, str]) -> dict[str, np.ndarray]:
    reasons = dict.fromkeys(groups.values())
    return {
        reason: rows.uids[np.isin(rows.groups, [group for group, why in groups.items() if why == reason])]
        for reason in reasons
    }
