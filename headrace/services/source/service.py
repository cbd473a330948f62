"""Writes prompts into the table, whole groups at a time, until the data or the run ends.

Consumes the data set in its order; produces `prompt_ids` and `example`, one row per sample to come; waits
for room in the table, which consumers make; being full is its normal state. Group g holds the prompt at
position g of the stream, so that a prompt keeps its uids over any number of resumes.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from headrace.services.base import Context
from headrace.services.clock import ActivityClock
from headrace.services.data_position import UID_SAMPLE_BITS, DataPosition
from headrace.services.models import load_tokenizer
from headrace.services.options import SourceOptions
from headrace.services.source.datasets import open_dataset
from headrace.services.source.encode import encode
from headrace.services.source.order import DataOrder
from headrace.transferqueue import WaitTimeout

_PUT_TIMEOUT_S = 60.0
_MAX_PROMPTS_PER_PUT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Whole groups, ready to be put: all arrays and lists have one value per row."""

    epoch: int
    uids: np.ndarray
    groups: np.ndarray
    columns: dict[str, list[Any]]


class Source:
    """A `Loop`. After a resume it draws exactly the prompts that no committed step has used; those that are
    in the queue already, where it outlived the launch, are not written again."""

    def __init__(self, *, load_tokenizer: Callable[[str], Any] = load_tokenizer) -> None:
        self._load_tokenizer = load_tokenizer
        self._clock = ActivityClock()

    async def setup(self, context: Context) -> None:
        """Raises DatasetError where the data set cannot be opened."""
        options: SourceOptions = context.options
        self._samples = _within_uid(options.samples_per_prompt)
        self._context = context
        used = DataPosition() if context.resume is None else DataPosition.of_checkpoint(context.resume)
        table = (await context.client.stats()).tables[context.flow.table]
        self._start = used.after(table.newest_group)
        self._dataset = await asyncio.to_thread(open_dataset, options.dataset, context.seed)
        self._order = DataOrder(
            size=len(self._dataset), seed=context.seed, shuffle=options.shuffle, epochs=options.epochs
        )
        self._tokenizer = await asyncio.to_thread(self._load_tokenizer, context.policy.model)
        self._per_put = min(context.flow.prompts_per_step, _MAX_PROMPTS_PER_PUT)

    async def run(self) -> None:
        """Returns when every epoch is written; without a number of epochs it goes on until cancelled."""
        for positions in _chunks(self._start.remaining(self._order.total), self._per_put):
            with self._clock.during("busy"):
                block = await asyncio.to_thread(self._draw, positions)
            await self._put(block)
            self._context.report.metrics(
                {
                    **self._clock.fractions(),
                    "data/epoch": float(block.epoch),
                    "data/prompts_written": float(positions[-1] + 1),
                }
            )
        await self._context.client.end(self._context.flow.table)

    def _draw(self, positions: Sequence[int]) -> _Block:
        prompts, examples, epoch = [], [], 0
        for position in positions:
            epoch, index = self._order.at(position)
            entry = self._dataset[index]
            prompts += [encode(entry.prompt, self._tokenizer)] * self._samples
            examples += [entry.example] * self._samples
        groups = np.repeat(np.asarray(positions, dtype=np.int64), self._samples)
        uids = groups << UID_SAMPLE_BITS | np.tile(np.arange(self._samples), len(positions))
        return _Block(
            epoch=epoch, uids=uids, groups=groups, columns={"prompt_ids": prompts, "example": examples}
        )

    async def _put(self, block: _Block) -> None:
        while True:
            try:
                await self._context.client.put(
                    self._context.flow.table,
                    block.uids,
                    block.columns,
                    groups=block.groups,
                    timeout_s=_PUT_TIMEOUT_S,
                )
                return
            except WaitTimeout:
                continue

    async def close(self) -> None:
        """Holds nothing that outlives it."""


def _within_uid(samples_per_prompt: int) -> int:
    if not 1 <= samples_per_prompt <= 1 << UID_SAMPLE_BITS:
        raise ValueError(
            f"samples_per_prompt is {samples_per_prompt}; a uid has room for 1 to {1 << UID_SAMPLE_BITS}"
        )
    return samples_per_prompt


def _chunks(positions: Iterable[int], size: int) -> Iterator[list[int]]:
    positions = iter(positions)
    while chunk := list(islice(positions, size)):
        yield chunk
