"""Scores answers: decodes their token ids, asks the verifier, writes the reward or why there is none.

Invariant: an answer whose scoring raised is never written. It is handed back alone, to be tried again; the
others of its lease are written first.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

from headrace.services.base import Context, Output
from headrace.services.models import load_tokenizer
from headrace.services.options import PythonVerifier, RewardOptions
from headrace.services.reward.isolated import IsolatedVerifier
from headrace.services.reward.scorers import Scorer, scorer
from headrace.services.texts import decode, keywords
from headrace.services.verdicts.errors import RewardError
from headrace.services.verdicts.outcomes import Outcomes
from headrace.services.verdicts.verdict import Verdict
from headrace.services.verdicts.written import written
from headrace.transferqueue import Rows

FLUSH_AFTER_S = 0.1
"""Seconds after which what has been scored is written, even if the lease holds more."""


class Reward:
    """A `Service`."""

    def __init__(self, *, load_tokenizer: Callable[[str], Any] = load_tokenizer) -> None:
        self.capacity = 1024
        self._load_tokenizer = load_tokenizer
        self._scorer: Scorer | None = None

    async def setup(self, context: Context) -> None:
        """Raises VerifierUnusable where the verifier cannot be made."""
        options: RewardOptions = context.options
        self._context = context
        self._outcomes = Outcomes(max_error_rate=options.max_error_rate)
        self._tokenizer = await asyncio.to_thread(self._load_tokenizer, context.policy.model)
        self._scorer = scorer(options.verifier, log_file=context.log_file, run_dir=context.run_dir)
        if isinstance(self._scorer, IsolatedVerifier):
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
                self._outcomes.add(error)
                failed.append((uid, error))
                continue
            self._outcomes.add(verdict)
            scored.append((uid, verdict))
            if time.monotonic() - flushed > FLUSH_AFTER_S:
                yield written(scored, self._context.options.column)
                scored, flushed = [], time.monotonic()
        if scored:
            yield written(scored, self._context.options.column)
        self._context.report.metrics(self._outcomes.rates())
        self._outcomes.raise_failed(failed, len(rows))

    def _further(self, rows: Rows) -> list[dict[str, Any]]:
        """What a verifier of the user's reads beside answer and entry, for each row."""
        verifier = self._context.options.verifier
        names = verifier.columns if isinstance(verifier, PythonVerifier) else ()
        return keywords(rows, names, self._tokenizer)

    async def close(self) -> None:
        if self._scorer is not None:
            await self._scorer.close()
