"""The reference: log-probabilities of the answers under the policy's initial weights, which never change."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from headrace.services.base import Context, Output
from headrace.services.options import ReferenceOptions
from headrace.transferqueue import Rows

if TYPE_CHECKING:
    from headrace.services.scoring.model import PackedModel

CAPACITY_ROWS = 256


class Reference:
    """Scores leased rows with the model that the policy started from."""

    capacity = CAPACITY_ROWS
    _model: "PackedModel"

    async def setup(self, context: Context) -> None:
        self._options: ReferenceOptions = context.options
        self._model = await asyncio.to_thread(_load, context)

    async def process(self, rows: Rows) -> AsyncIterator[Output]:
        """One output for all rows; the column of `columns.REFERENCE`."""
        from headrace.services.scoring.score import score

        logprobs = await asyncio.to_thread(
            score,
            self._model,
            rows["prompt_ids"],
            rows["response_ids"],
            rows.groups,
            max_tokens=self._options.micro_batch_tokens,
        )
        yield Output(uids=rows.uids, columns={"reference_logprobs": logprobs})

    async def close(self) -> None:
        """Holds nothing that outlives it."""


def _load(context: Context) -> "PackedModel":
    from headrace.services.models import load
    from headrace.services.scoring.model import PackedModel

    loaded = load(context.policy.model, dtype=context.policy.dtype, seed=context.seed)
    return PackedModel(loaded.model, temperature=context.flow.temperature)
