"""Scores answers by a model behind an endpoint: fills the template, asks, reads the score in the reply.

Invariant: an answer is written once the judge has replied to it, valid or not; one that got no reply is
handed back, to be tried again, and counts as a failed scoring.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from headrace.services.base import Context, Output
from headrace.services.endpoint.errors import Refused
from headrace.services.judge.asking import Asking
from headrace.services.judge.template import KNOWN, Missing, fault_of, fill, unknown_fields, verdict
from headrace.services.models import load_tokenizer
from headrace.services.options import JudgeOptions
from headrace.services.texts import decode
from headrace.services.verdicts.errors import JudgeUnusable, RewardError
from headrace.services.verdicts.outcomes import Outcomes
from headrace.services.verdicts.verdict import Invalid, Verdict
from headrace.services.verdicts.written import written
from headrace.transferqueue import Rows

LEASED_PER_PLACE = 2
"""Rows leased for each request that may be in flight, so that one follows another."""


class Judge:
    """A `Service`."""

    capacity = 0
    _asking: Asking | None = None

    def __init__(self, *, load_tokenizer: Callable[[str], Any] = load_tokenizer) -> None:
        self._load_tokenizer = load_tokenizer

    async def setup(self, context: Context) -> None:
        """Raises JudgeUnusable where question or reply could not be made sense of, or the key is missing."""
        options: JudgeOptions = context.options
        _usable(options)
        self._context = context
        self._options = options
        self.capacity = LEASED_PER_PLACE * options.max_concurrent
        self._outcomes = Outcomes(max_error_rate=options.max_error_rate, role="judge")
        self._tokenizer = await asyncio.to_thread(self._load_tokenizer, context.policy.model)
        self._asking = Asking(options)

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        """Yields what was replied to together. Raises the last RewardError for the rows left unwritten,
        ReplicaFailed beyond max_error_rate and where the endpoint answers nobody."""
        asked = {
            asyncio.create_task(self._judged(prompt, response, example)): uid
            for uid, prompt, response, example in zip(
                rows.uids.tolist(),
                decode(self._tokenizer, rows["prompt_ids"]),
                decode(self._tokenizer, rows["response_ids"]),
                rows["example"],
                strict=True,
            )
        }
        failed: list[tuple[int, RewardError]] = []
        pending = set(asked)
        try:
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                outcomes = [(asked[task], task.result()) for task in done]
                failed += [(uid, outcome) for uid, outcome in outcomes if isinstance(outcome, RewardError)]
                scored = [(uid, v) for uid, v in outcomes if not isinstance(v, RewardError)]
                if scored:
                    yield written(scored, self._options.column)
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        self._context.report.metrics(self._outcomes.rates())
        self._outcomes.raise_failed(failed, len(rows))

    async def _judged(self, prompt: str, response: str, example: Mapping[str, Any]) -> Verdict | RewardError:
        try:
            outcome = await self._asked(prompt, response, example)
        except RewardError as error:
            outcome = error
        self._outcomes.add(outcome)
        return outcome

    async def _asked(self, prompt: str, response: str, example: Mapping[str, Any]) -> Verdict:
        assert self._asking is not None, "setup comes first"
        options = self._options
        try:
            question = fill(options.template, prompt=prompt, response=response, example=example)
            reply = await self._asking.ask(question)
        except Missing as missing:
            return Invalid(reason=str(missing))
        except Refused as refused:
            return Invalid(reason=f"the judge refused it: {refused}")
        parts = {} if reply.tokens is None else {"judge_tokens": float(reply.tokens)}
        return verdict(reply.text, options.pattern, scale=options.scale, parts=parts)

    async def close(self) -> None:
        if self._asking is not None:
            await self._asking.close()


def _usable(options: JudgeOptions) -> None:
    if unknown := [f"{{{name}}}" for name in unknown_fields(options.template)]:
        raise JudgeUnusable(f"the template has {', '.join(unknown)}; it may have {KNOWN}")
    if fault := fault_of(options.pattern):
        raise JudgeUnusable(f"pattern {fault}; put what is the score in parentheses")
