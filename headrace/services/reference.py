"""The reference: log-probabilities of the answers under the policy's initial weights, which never change.

The model runs in one thread: leases are scored one after another while the event loop stays free.
"""

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

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

    def __init__(self) -> None:
        self._compute = ThreadPoolExecutor(1, thread_name_prefix="reference")

    async def setup(self, context: Context) -> None:
        self._options: ReferenceOptions = context.options
        self._model = await asyncio.get_running_loop().run_in_executor(self._compute, _load, context)

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        """One output for all rows; the column of `columns.REFERENCE`."""
        loop = asyncio.get_running_loop()
        logprobs = await loop.run_in_executor(self._compute, self._score, rows)
        yield Output(uids=rows.uids, columns={"reference_logprobs": logprobs})

    def _score(self, rows: Rows) -> list[np.ndarray]:
        from headrace.services.scoring.score import score

        return score(
            self._model,
            rows["prompt_ids"],
            rows["response_ids"],
            rows.groups,
            max_tokens=self._options.micro_batch_tokens,
        )

    async def close(self) -> None:
        """Waits for the lease that is being scored; those behind it are not begun."""
        await asyncio.to_thread(self._compute.shutdown, cancel_futures=True)


def _load(context: Context) -> "PackedModel":
    from headrace.services.models import load
    from headrace.services.scoring.model import PackedModel

    loaded = load(context.policy.model, dtype=context.policy.dtype, seed=context.seed)
    return PackedModel(loaded.model, temperature=context.flow.temperature)
