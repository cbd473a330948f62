"""What reference, teacher and critic have in common: a model that writes one number for each answer token.

The model runs in one thread: leases are scored one after another while the event loop stays free.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from headrace.services.base import Context, Output
from headrace.services.options import ScorerOptions
from headrace.transferqueue import Rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from headrace.services.scoring.score import TokenScores

CAPACITY_ROWS = 256
ONE_BY_ONE = 1
"""Tokens of a pack that no answer shares with another: what a row gets does not depend on who is leased
beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringModel:
    """A model and how it scores."""

    model: "PreTrainedModel" = field(repr=False)
    scores: "TokenScores" = field(repr=False)


class ModelScorer(ABC):
    """Writes one number for each answer token, from the model that a subclass opens."""

    capacity = CAPACITY_ROWS
    column: ClassVar[str]
    """The column that it writes."""
    _scoring: ScoringModel

    def __init__(self) -> None:
        self._compute = ThreadPoolExecutor(1, thread_name_prefix=type(self).__name__.lower())

    @abstractmethod
    def open_model(self, context: Context) -> ScoringModel:
        """Under the policy's own weights; called once, in the thread that scores."""

    async def setup(self, context: Context) -> None:
        options: ScorerOptions = context.options
        self._max_tokens = ONE_BY_ONE if context.flow.deterministic else options.micro_batch_tokens
        self._scoring = await asyncio.get_running_loop().run_in_executor(
            self._compute, self.open_model, context
        )

    async def prove(self) -> None:
        """One forward pass, of an answer of one token."""
        await asyncio.get_running_loop().run_in_executor(self._compute, self._first)

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        """One output for all rows, with the one column."""
        scored = await asyncio.get_running_loop().run_in_executor(self._compute, self._score, rows)
        yield Output(uids=rows.uids, columns={self.column: scored})

    def _first(self) -> None:
        from headrace.services.scoring.score import score

        token = [np.zeros(1, dtype=np.int32)]
        score(self._scoring.scores, token, token, np.zeros(1, dtype=np.int64), max_tokens=self._max_tokens)

    def _score(self, rows: Rows) -> list[np.ndarray]:
        from headrace.services.scoring.score import score

        return score(
            self._scoring.scores,
            rows["prompt_ids"],
            rows["response_ids"],
            rows.groups,
            max_tokens=self._max_tokens,
        )

    async def close(self) -> None:
        """Waits for the lease that is being scored; those behind it are not begun."""
        await asyncio.to_thread(self._compute.shutdown, cancel_futures=True)


def language_model(context: Context) -> ScoringModel:
    """Log-probabilities under the node's policy as it was before any training."""
    from headrace.services.devices import take
    from headrace.services.models.policy import load_policy
    from headrace.services.scoring.model import PackedModel

    loaded = load_policy(context.policy, seed=context.weights_seed, device=take(context.options.gpus))
    packed = PackedModel(loaded.model, temperature=context.flow.temperature)
    return ScoringModel(model=packed.model, scores=packed.logprobs)
