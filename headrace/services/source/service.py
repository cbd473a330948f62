"""Writes prompts into the table, whole groups at a time, until the data or the run ends.

    stream ─► encode ─► put                     waits for room, which consumers make: full is its normal state
    scored groups ─► hear ─► ack                beside it, where the sampler or the budget goes by answers

Consumes a stream of prompts; produces `prompt_ids` and `example`, one row per sample to come. Group g holds
the prompt at position g of the stream, so that a prompt keeps its uids over any number of resumes.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from headrace.services.base import Context
from headrace.services.clock import ActivityClock
from headrace.services.data_position import DataPosition
from headrace.services.models import load_tokenizer
from headrace.services.options import SourceOptions
from headrace.services.prompts import encode
from headrace.services.source.adaptive import AdaptiveStream
from headrace.services.source.datasets import open_dataset
from headrace.services.source.hearing import listen
from headrace.services.source.opened import open_stream
from headrace.services.source.stream import Pick, PromptStream
from headrace.services.whole_groups import Fresh, put_whole
from headrace.transferqueue import SAMPLE_BITS

T = TypeVar("T")


class Source:
    """A `Loop`. After a resume it draws exactly the prompts that no committed step has used; those that are
    in the queue already, where it outlived the launch, are not written again."""

    def __init__(self, *, load_tokenizer: Callable[[str], Any] = load_tokenizer) -> None:
        self._load_tokenizer = load_tokenizer
        self._clock = ActivityClock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="source")
        self._stream: PromptStream | None = None

    async def setup(self, context: Context) -> None:
        """Raises DatasetError where the data set cannot be opened, ValueError where it lacks what the sampler
        or the budget goes by, JournalError where an earlier life's log does not fit."""
        options: SourceOptions = context.options
        _within_uid(options.budget.group_sizes(options.samples_per_prompt)[1])
        self._context = context
        used = DataPosition() if context.resume is None else DataPosition.of_checkpoint(context.resume)
        table = (await context.client.stats()).tables[context.flow.table]
        self._dataset = await self._run(open_dataset, options.dataset, context.seed)
        self._stream = await self._run(open_stream, context, self._dataset, used.after(table.newest_group))
        self._tokenizer = await self._run(self._load_tokenizer, context.policy.model)

    async def run(self) -> None:
        """Returns when every epoch is written, and heard of where that is asked for; without a number of
        epochs it goes on until cancelled."""
        stream = self._stream
        assert stream is not None, "setup comes first"
        if not self._context.options.hears:
            await self._write(stream)
            return
        assert isinstance(stream, AdaptiveStream)
        async with asyncio.TaskGroup() as both:
            both.create_task(listen(self._context, lambda *heard: self._run(stream.hear, *heard)))
            both.create_task(self._write(stream))

    async def _write(self, stream: PromptStream) -> None:
        while picks := await self._run(stream.next):
            with self._clock.during("busy"), self._context.pulse.working("encode prompts"):
                began = time.monotonic()
                block = await self._run(self._encoded, picks)
                await self._context.faults.after_work(time.monotonic() - began)
            await put_whole(self._context.client, self._context.flow.table, block, self._context.trace)
            self._context.report.metrics(
                {
                    **self._clock.figures(),
                    **await self._run(stream.metrics),
                    "data/epoch": float(picks[-1].epoch),
                    "data/prompts_written": float(picks[-1].position + 1),
                }
            )
        await self._context.client.end(self._context.flow.table)

    def _encoded(self, picks: Sequence[Pick]) -> Fresh:
        prompts: list[Any] = []
        examples: list[Any] = []
        for pick in picks:
            entry = self._dataset[pick.index]
            prompts += [encode(entry.prompt, self._tokenizer)] * pick.samples
            examples += [entry.example] * pick.samples
        sizes = [pick.samples for pick in picks]
        groups = np.repeat(np.array([pick.position for pick in picks], dtype=np.int64), sizes)
        uids = groups << SAMPLE_BITS | np.concatenate([np.arange(size) for size in sizes])
        return Fresh(uids=uids, groups=groups, columns={"prompt_ids": prompts, "example": examples})

    def _run(self, call: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """The stream is used in one thread, so the loop stays free and calls never overlap."""
        return asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    async def close(self) -> None:
        """Keeps where the stream stands."""
        try:
            if self._stream is not None:
                await self._run(self._stream.close)
        finally:
            await asyncio.to_thread(self._thread.shutdown)


def _within_uid(samples: int) -> None:
    if samples > 1 << SAMPLE_BITS:
        raise ValueError(f"samples_per_prompt is {samples}; a uid has room for 1 to {1 << SAMPLE_BITS}")
