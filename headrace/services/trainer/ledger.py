"""What one training step has taken so far, and the metrics it ends with, under the names of docs/metrics.md.

Pure: rows and figures in, a flat dict of floats out. Statistics of rewards leave invalid ones out; staleness
is the trained version minus the smallest version that made any token of the sample. What is said of a column
that the task does not read is left out.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.algorithms.advantages import singletons, zero_std_frac
from headrace.services.trainer.intake import Intake, Judged
from headrace.services.trainer.shown import Shown
from headrace.transferqueue import Rows, TableStats


@dataclass(slots=True)
class Ledger:
    """Adds up the rows of one step. Arrays are kept per lease and joined once, at the end."""

    step: int
    own: bool = True
    """Whether the policy made the rows, so that their versions are its own."""
    shown: Shown = field(default_factory=lambda: Shown(0, most=0, rows_per_step=0))
    """Of the rows that it trains on, those that people may read."""
    uids: list[int] = field(default_factory=list)
    """Rows that the step commits, in the order of their leases."""
    leases: list[tuple[np.ndarray, float]] = field(default_factory=list, repr=False)
    """Those rows by lease, and when each was."""
    groups: set[int] = field(default_factory=set)
    """Those of the rows that it commits."""
    dropped: list[int] = field(default_factory=list)
    """Rows that it looked at and dropped."""
    _rewards: list[np.ndarray] = field(default_factory=list)
    _row_groups: list[np.ndarray] = field(default_factory=list)
    _answers: dict[int, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    """The different answers of each group."""
    _lengths: list[int] = field(default_factory=list)
    _staleness: list[int] = field(default_factory=list)
    _spans: list[int] = field(default_factory=list)
    _retokenises: list[bool] = field(default_factory=list)
    """Whether the text of each answer encodes to its ids."""
    _finish: Counter[str] = field(default_factory=Counter)
    _invalid: Counter[str] = field(default_factory=Counter)
    _parts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, judged: Judged, *, leased: float = 0.0) -> None:
        """`leased`: when, Unix seconds."""
        for part in filter(None, (judged.kept, judged.held)):
            self.uids += part.uids.tolist()
            self.leases.append((part.uids, leased))
            self.groups |= set(part.groups.tolist())
        if len(judged.kept):
            self._train(judged.kept)

    def drop(self, uids: np.ndarray) -> None:
        self.dropped += uids.tolist()

    def _train(self, rows: Rows) -> None:
        self.shown.add(rows)
        self._rewards.append(np.asarray(rows["reward"], dtype=np.float64))
        self._row_groups.append(rows.groups)
        for group, ids in zip(rows.groups.tolist(), rows["response_ids"], strict=True):
            self._answers[group].add(ids.tobytes())
            self._lengths.append(len(ids))
        for versions in _read(rows, "versions") if self.own else ():
            oldest, newest = (int(versions.min()), int(versions.max())) if len(versions) else (self.step,) * 2
            self._staleness.append(self.step - oldest)
            self._spans.append(newest - oldest + 1)
        self._retokenises += [bool(same) for same in _read(rows, "retokenises")]
        self._finish.update(_read(rows, "finish_reason"))
        self._invalid.update(reason for reason in _read(rows, "reward_invalid") if reason)
        for parts in _read(rows, "reward_parts"):
            for name, value in parts.items():
                self._parts[name].append(float(value))

    @property
    def trained(self) -> int:
        """Rows that the step trains on."""
        return len(self._lengths)

    @property
    def tokens(self) -> int:
        return sum(self._lengths)

    @property
    def staleness_max(self) -> int:
        return max(self._staleness, default=0)

    def metrics(self, staleness_limit: float) -> dict[str, float]:
        rewards = np.concatenate(self._rewards)
        groups = np.concatenate(self._row_groups)
        valid = rewards[~np.isnan(rewards)]
        lengths = np.array(self._lengths)
        return {
            **_statistics("reward", valid),
            **{f"reward/{name}": float(np.mean(values)) for name, values in self._parts.items()},
            "reward/invalid_rate": 1.0 - len(valid) / len(rewards),
            **{f"reward/invalid/{reason}": float(count) for reason, count in self._invalid.items()},
            "group/zero_std_frac": zero_std_frac(rewards, groups),
            "group/singletons": float(singletons(rewards, groups)),
            "group/unique_completions": float(np.mean([len(each) for each in self._answers.values()])),
            **(self._staleness_metrics(staleness_limit) if self._staleness else {}),
            "response_length/mean": float(lengths.mean()),
            "response_length/p50": float(np.percentile(lengths, 50)),
            "response_length/p99": float(np.percentile(lengths, 99)),
            "response_length/max": float(lengths.max()),
            **({"truncated_frac": self._finish["length"] / len(lengths)} if self._finish else {}),
            **self._mismatches(),
            "samples/trained": float(self.trained),
        }

    def _mismatches(self) -> dict[str, float]:
        if not self._retokenises:
            return {}
        return {"data/retokenisation_mismatches": float(self._retokenises.count(False))}

    def _staleness_metrics(self, limit: float) -> dict[str, float]:
        staleness = np.array(self._staleness)
        return {
            "staleness/mean": float(staleness.mean()),
            "staleness/max": float(staleness.max()),
            "staleness/violations": float((staleness > limit).sum()),
            **{f"staleness/count/{s}": float((staleness == s).sum()) for s in np.unique(staleness).tolist()},
            "staleness/spans_max": float(max(self._spans)),
        }


def intake_metrics(intake: Intake) -> dict[str, float]:
    """What the filter made of the groups that the step looked at."""
    return {
        "group/accepted": float(intake.accepted),
        **{f"group/dropped/{reason}": float(groups) for reason, groups in intake.rejected.items()},
        **{f"samples/masked/{reason}": float(rows) for reason, rows in intake.masked.items()},
    }


def queue_metrics(table: TableStats) -> dict[str, float]:
    """What the queue has counted of a table since the launch."""
    dispatched = table.dispatched_length_mean
    return {
        "samples/duplicated": float(table.duplicated),
        "samples/lost": float(table.lost),
        "data/quarantined": float(table.quarantined),
        **{f"samples/dropped/{reason}": float(rows) for reason, rows in table.dropped.items()},
        "trained_len/dispatched_len": table.trained_length_mean / dispatched if dispatched else 1.0,
    }


def staleness_limit(staleness: float) -> float:
    """The largest staleness that may be trained on: the knob, rounded up."""
    return staleness if math.isinf(staleness) else float(math.ceil(staleness))


def _read(rows: Rows, column: str) -> Sequence[Any]:
    """One value per row; none where the task does not read the column."""
    return rows[column] if column in rows.columns else ()


def _statistics(name: str, values: np.ndarray) -> dict[str, float]:
    if len(values) == 0:
        return {}
    return {
        f"{name}/mean": float(values.mean()),
        f"{name}/std": float(values.std()),
        f"{name}/min": float(values.min()),
        f"{name}/max": float(values.max()),
    }
