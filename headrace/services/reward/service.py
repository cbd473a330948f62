"""Scores answers: decodes their token ids, asks the verifier, writes the reward or why there is none.

Invariant: an answer whose scoring raised is never written. It is handed back alone, to be tried again; the
others of its lease are written first. When too large a share of the last scorings raised, the service gives
up with the last cause instead of wearing every row out.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any

import numpy as np

from headrace.services.base import Context, Output
from headrace.services.columns import reward
from headrace.services.errors import ReplicaFailed
from headrace.services.models import load_tokenizer
from headrace.services.options import PythonVerifier, RewardOptions
from headrace.services.reward.errors import RewardError
from headrace.services.reward.isolated import Isolated
from headrace.services.reward.scorers import Scorer, scorer
from headrace.services.reward.verdict import Score, Verdict
from headrace.services.texts import decode, plain
from headrace.transferqueue import Rows

WINDOW = 256
"""Scorings over which shares are taken."""
MIN_SCORED = 32
"""Scorings before the share of errors can end the service."""
FLUSH_AFTER_S = 0.1
"""Seconds after which what has been scored is written, even if the lease holds more."""


class Reward:
    """A `Service`."""

    def __init__(self, *, load_tokenizer: Callable[[str], Any] = load_tokenizer) -> None:
        self.capacity = 1024
        self._load_tokenizer = load_tokenizer
        self._scorer: Scorer | None = None
        self._outcomes = Outcomes()

    async def setup(self, context: Context) -> None:
        """Raises VerifierUnusable where the verifier cannot be made."""
        options: RewardOptions = context.options
        self._context = context
        self._max_error_rate = options.max_error_rate
        self._tokenizer = await asyncio.to_thread(self._load_tokenizer, context.policy.model)
        self._scorer = scorer(options.verifier, log_file=context.log_file)
        if isinstance(self._scorer, Isolated):
            self.capacity = 64
        await self._scorer.start()

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        """Raises the last RewardError for the rows left unwritten, ReplicaFailed beyond max_error_rate."""
        if self._scorer is None:
            raise RuntimeError("process() came before setup()")
        scored: list[tuple[int, Verdict]] = []
        failed: list[tuple[int, RewardError]] = []
        flushed = time.monotonic()
        texts = decode(self._tokenizer, rows["response_ids"])
        further = self._further(rows)
        for uid, text, example, columns in zip(
            rows.uids.tolist(), texts, rows["example"], further, strict=True
        ):
            try:
                verdict = await self._scorer.score(text, example, **columns)
            except RewardError as error:
                self._outcomes.add("error")
                failed.append((uid, error))
                continue
            self._outcomes.add("value" if isinstance(verdict, Score) else "invalid")
            scored.append((uid, verdict))
            if time.monotonic() - flushed > FLUSH_AFTER_S:
                yield self._output(scored)
                scored, flushed = [], time.monotonic()
        if scored:
            yield self._output(scored)
        self._context.report.metrics(self._outcomes.rates())
        if failed:
            self._give_up_or_hand_back(failed, len(rows))

    def _further(self, rows: Rows) -> list[dict[str, Any]]:
        """What a verifier of the user's reads beside answer and entry, for each row."""
        verifier = self._context.options.verifier
        names = verifier.columns if isinstance(verifier, PythonVerifier) else ()
        values = [[plain(value) for value in rows[name]] for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)] or [{}] * len(rows)

    def _give_up_or_hand_back(self, failed: list[tuple[int, RewardError]], of: int) -> None:
        uid, last = failed[-1]
        if self._outcomes.error_rate_exceeds(self._max_error_rate):
            rate = self._outcomes.rates()["reward/error_rate"]
            raise ReplicaFailed(
                f"{rate:.0%} of the last {len(self._outcomes)} scorings raised, max_error_rate allows"
                f" {self._max_error_rate:.0%}; the last: {last}"
            ) from last
        raise type(last)(f"{len(failed)} of {of} answers could not be scored; uid {uid}: {last}") from last

    def _output(self, scored: list[tuple[int, Verdict]]) -> Output:
        values, reasons, parts = [], [], []
        for _, verdict in scored:
            valid = isinstance(verdict, Score)
            values.append(verdict.value if valid else np.nan)
            reasons.append("" if valid else verdict.reason)
            parts.append(dict(verdict.parts) if valid else {})
        value, invalid, named = (column.name for column in reward(self._context.options.column))
        return Output(
            uids=np.array([uid for uid, _ in scored], dtype=np.int64),
            columns={value: np.array(values, dtype=np.float64), invalid: reasons, named: parts},
        )

    async def close(self) -> None:
        if self._scorer is not None:
            await self._scorer.close()


class Outcomes:
    """How the last WINDOW scorings ended: value, invalid or error."""

    def __init__(self) -> None:
        self._last: deque[str] = deque(maxlen=WINDOW)

    def __len__(self) -> int:
        return len(self._last)

    def add(self, outcome: str) -> None:
        self._last.append(outcome)

    def rates(self) -> dict[str, float]:
        """Shares of the scorings in the window."""
        count = max(len(self._last), 1)
        return {
            "reward/error_rate": self._last.count("error") / count,
            "reward/invalid_rate": self._last.count("invalid") / count,
        }

    def error_rate_exceeds(self, limit: float) -> bool:
        """False until MIN_SCORED scorings are known."""
        return len(self._last) >= MIN_SCORED and self.rates()["reward/error_rate"] > limit
