"""A few samples of each step, for people to read: evenly spread over its rows, with their texts.

Invariant: what is shown is bounded in samples and in tokens of each, whatever the step trains on.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from headrace.services.base import Report
from headrace.services.texts import decode
from headrace.transferqueue import Rows

KIND: Final = "samples"
"""Of the record that carries them."""
MOST_TOKENS: Final = 1024
"""Decoded of a prompt's end, and of an answer's beginning."""
NOTED: Final = ("reward_invalid", "reward_parts", "finish_reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    prompt_ids: np.ndarray = field(repr=False)
    response_ids: np.ndarray = field(repr=False)
    said: dict[str, Any]


class Shown:
    """Those of one step."""

    def __init__(self, step: int, *, most: int, rows_per_step: int) -> None:
        self._step = step
        self._every = max(rows_per_step // most, 1) if most else 0
        self._most = most
        self._seen = 0
        self._kept: list[_Kept] = []
        self.samples: list[dict[str, Any]] = []
        """As JSON has them, once decoded: `uid` and `group` as text, since they may be too long for a script;
        `versions` as runs [version, tokens]; `taken` and `trained` in Unix seconds."""

    def add(self, rows: Rows) -> None:
        """Rows that the step trains on, as they come."""
        if not self._every:
            return
        first = -self._seen % self._every
        self._seen += len(rows)
        for index in range(first, len(rows), self._every)[: self._most - len(self._kept)]:
            self._kept.append(_kept(rows, index, self._step))

    def decode(self, tokenizer: Any) -> None:
        """Makes `samples` of the rows that were kept."""
        prompts = decode(tokenizer, [kept.prompt_ids for kept in self._kept])
        answers = decode(tokenizer, [kept.response_ids for kept in self._kept])
        trained_at = time.time()
        self.samples = [
            {**kept.said, "prompt": prompt, "answer": answer, "trained": trained_at}
            for kept, prompt, answer in zip(self._kept, prompts, answers, strict=True)
        ]

    def report(self, report: Report) -> None:
        if self.samples:
            report.event(KIND, step=self._step, samples=self.samples)


def _kept(rows: Rows, index: int, step: int) -> _Kept:
    reward = float(rows["reward"][index])
    versions = np.asarray(rows["versions"][index]) if "versions" in rows.columns else np.empty(0, np.int64)
    noted = {name: rows[name][index] for name in NOTED if name in rows.columns}
    prompt_ids, response_ids = rows["prompt_ids"][index], rows["response_ids"][index]
    return _Kept(
        prompt_ids=np.array(prompt_ids[-MOST_TOKENS:]),
        response_ids=np.array(response_ids[:MOST_TOKENS]),
        said={
            "table": rows.spec.name,
            "uid": str(rows.uids[index]),
            "group": str(rows.groups[index]),
            "prompt_tokens": len(prompt_ids),
            "answer_tokens": len(response_ids),
            "reward": reward if math.isfinite(reward) else None,
            "invalid": noted.get("reward_invalid") or "",
            "parts": dict(noted.get("reward_parts") or {}),
            "finish_reason": noted.get("finish_reason") or "",
            "versions": runs(versions),
            "staleness": step - int(versions.min()) if len(versions) else None,
            "taken": time.time(),
        },
    )


def runs(versions: Sequence[int] | np.ndarray) -> list[list[int]]:
    """[version, tokens] of each stretch of tokens that one version made."""
    made = np.asarray(versions, dtype=np.int64)
    starts = np.flatnonzero(np.diff(made, prepend=made[:1] - 1))
    lengths = np.diff(np.append(starts, len(made)))
    return [[int(made[start]), int(length)] for start, length in zip(starts, lengths, strict=True)]
