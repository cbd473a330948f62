"""A trainer's checkpoints on their way to disk, beside its next steps.

    room? ─► copy ─┬─► write ─► hash, sync, rename ─► old ones go ─► the queue is told
                   └─► the next steps

Invariant: the queue hears of a checkpoint once it is whole under its name. One is on its way at a time: the
next is copied when it is there. Where `checkpoint_async` is off, nothing is copied and steps wait.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.services.base import Context
from headrace.services.errors import describe
from headrace.services.options import TrainerOptions
from headrace.services.room import Room
from headrace.services.trainer import checkpoint
from headrace.services.trainer.backend import Backend
from headrace.services.trainer.copying import Copying

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Compute = Callable[..., "asyncio.Future[Any]"]
"""Runs a call of the back end, one after another."""


class Checkpointing:
    """Between `open` and `failure`."""

    def __init__(self) -> None:
        self._going: asyncio.Task[None] | None = None
        self._step = 0
        self._room: Room | None = None
        self._copying: Copying | None = None

    @property
    def going(self) -> "asyncio.Task[None] | None":
        """The one that is on its way."""
        return self._going

    def open(
        self, context: Context, backend: Backend, tokenizer: "PreTrainedTokenizerBase", compute: Compute
    ) -> None:
        self._context, self._backend, self._tokenizer = context, backend, tokenizer
        self._options: TrainerOptions = context.options
        self._compute = compute
        self._directory = context.checkpoint_folder
        self._step = context.flow.first_step
        if (address := self._options.checkpoint_store) is not None:
            self._copying = Copying(
                address,
                context.report,
                keep=self._options.keep_checkpoints,
                keep_every=self._options.keep_every,
            )
        self._room = Room(self._directory, context.pulse, context.report)

    async def resumed(self) -> None:
        """Of a run that goes on: what it passed over is set aside; the queue hears what is kept, since one
        that was killed between a checkpoint and its word to the queue has not said it."""
        await self._tell(await asyncio.to_thread(self._tidied))

    def lacks(self, step: int) -> bool:
        """Whether none of `step` is there or on its way, and it could be: before `open` none can."""
        return self._room is not None and step != self._step

    async def begin(self, step: int, values: Mapping[str, Any]) -> None:
        """Copies what a checkpoint of `step` holds, once the one before is there; waits for room. `values`
        as in `checkpoint.write`. Raises what kept the one before from being written."""
        if not self.lacks(step):
            return
        began = time.monotonic()
        await self.out()
        what = f"the checkpoint of step {step}"
        size = await asyncio.to_thread(checkpoint.newest_size, self._directory)
        if self._options.checkpoint_async:
            await self._opened_room.once_there_is(size, partial(self._snapshot, what), what)
        self._step = step
        self._going = asyncio.create_task(self._write(step, values, size, what, began), name="checkpointing")
        if not self._options.checkpoint_async:
            await self.out()

    async def out(self) -> None:
        """Returns once nothing is on its way. Raises what kept a checkpoint from being written."""
        if self._going is not None:
            going = self._going
            await asyncio.wait({going})
            self._going = None
            going.result()

    async def copied(self) -> None:
        """Returns once no copy is on its way into the store, whether it could be made or not."""
        if self._copying is not None:
            await self._copying.out()

    async def has_room(self) -> None:
        """Returns once none waits for room on disk: a run takes no step that it might not be able to keep."""
        await self._opened_room.there_is.wait()

    def leave(self) -> None:
        """From now on nothing waits for room."""
        if self._room is not None:
            self._room.leave()
        if self._copying is not None:
            self._copying.leave()

    async def failure(self) -> str | None:
        """Once nothing is on its way: why the last one is not there, or None."""
        if self._going is None:
            return None
        await asyncio.wait({self._going})
        if self._going.cancelled():
            return "it was cut short"
        error = self._going.exception()
        return None if error is None else describe(error)

    @property
    def _opened_room(self) -> Room:
        assert self._room is not None, "open comes first"
        return self._room

    async def _snapshot(self, what: str) -> None:
        with self._context.pulse.working(f"copy {what}"):
            await self._compute(self._backend.snapshot)

    async def _write(self, step: int, values: Mapping[str, Any], size: int, what: str, began: float) -> None:
        held_s = time.monotonic() - began
        oldest = await self._opened_room.once_there_is(size, partial(self._files, step, values, what), what)
        await self._tell(oldest)
        seconds = time.monotonic() - began
        if not self._options.checkpoint_async:
            held_s = seconds
        if self._copying is not None:
            self._copying.begin(self._directory / checkpoint.STEP.format(step))
        self._context.report.event("checkpoint", step=step, seconds=seconds, steps_waited_s=held_s)

    async def _files(self, step: int, values: Mapping[str, Any], what: str) -> int:
        """Returns the earliest step that the run can still come back to."""
        with self._context.pulse.working(f"write {what}"):
            aside = await asyncio.to_thread(self._begun, step)
            try:
                await self._saved(aside)
                return await asyncio.to_thread(self._finished, aside, step, values)
            except BaseException:
                checkpoint.abandon(aside)
                raise

    async def _saved(self, aside: Path) -> None:
        if not self._options.checkpoint_async:
            await self._compute(self._backend.save, aside)
            return
        writing = await self._compute(self._backend.write, aside)
        await asyncio.wait({asyncio.wrap_future(writing)})
        await self._compute(self._backend.written)

    def _begun(self, step: int) -> Path:
        self._context.faults.before_writing()
        return checkpoint.begin(self._directory, step)

    def _finished(self, aside: Path, step: int, values: Mapping[str, Any]) -> int:
        self._tokenizer.save_pretrained(aside)
        checkpoint.finish(aside, step, values)
        return self._pruned()

    async def _tell(self, oldest: int) -> None:
        """Rows of steps before the earliest one may leave the queue."""
        await self._context.client.checkpointed(self._context.node, oldest)

    def _tidied(self) -> int:
        for path in checkpoint.set_aside_after(self._directory, self._step):
            self._context.report.event("checkpoint_set_aside", path=str(path))
        return self._pruned()

    def _pruned(self) -> int:
        keep = self._options.keep_checkpoints
        spared = set() if self._copying is None else self._copying.spared()
        checkpoint.prune(self._directory, keep=keep, keep_every=self._options.keep_every, spared=spared)
        return checkpoint.oldest_step(self._directory, keep=keep)
