"""A stream that a sampler and a budget allocator choose, a step at a time, by what they have heard so far.

    journal ─► positions drawn before, again          draw a step ─► journal ─► put
    answers ─► journal ─► once a step's groups are heard: sampler and allocator are told

Invariant: what is drawn for a position is in the journal before it is put, and each position is heard once:
a source that starts again stands where the last stood. Sampler and allocator must be functions of their
options, the seed and what they were told: lines beyond the snapshot are gone through again.
"""

from array import array
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.algorithms.advantages.group import group_zscore
from headrace.algorithms.budgets.base import BudgetAllocator, BudgetError
from headrace.algorithms.curricula.base import DataSampler
from headrace.algorithms.feedback import Feedback
from headrace.services.data_position import DataPosition
from headrace.services.source.domains import DomainFigures
from headrace.services.source.journal import Journal, JournalError, Record
from headrace.services.source.order import DataOrder
from headrace.services.source.stream import MAX_PROMPTS_PER_PUT, Pick

SNAPSHOT_EVERY_LINES = 1024
BY_ORDER = "by_order"
"""Marks a record of positions that were drawn before there was a sampler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a step draws and may spend."""

    prompts: int
    samples_per_prompt: int
    """On average."""
    most: int
    """Samples of one prompt."""
    size: int
    """Prompts of the data set."""


class AdaptiveStream:
    """A `PromptStream` that also hears. Calls must not overlap."""

    def __init__(
        self,
        sampler: DataSampler,
        allocator: BudgetAllocator,
        journal: Journal,
        *,
        share: Share,
        figures: DomainFigures,
        order: DataOrder,
        used: DataPosition,
    ) -> None:
        """`order` says what stands at positions that were used before there was a journal.

        Raises JournalError where the journal is of another data set, or of other options since a crash.
        """
        self._sampler, self._allocator, self._journal = sampler, allocator, journal
        self._share, self._figures = share, figures
        self._indices, self._samples, self._heard = array("q"), array("q"), bytearray()
        self._pending: dict[int, list[float | None]] = {}
        self._covered = 0
        self._restore()
        self._take_over(order, used.end)
        self._waiting = deque(used.remaining(len(self._indices)))

    def next(self) -> list[Pick]:
        """As of `PromptStream`. Raises BudgetError for an allocator that leaves its bounds."""
        while not self._waiting:
            record = self._draw()
            if not record["indices"]:
                return []
            self._journal.append(record, safe=True)
            first = len(self._indices)
            self._register(record)
            self._waiting.extend(range(first, len(self._indices)))
            self._save_at_times()
        count = min(len(self._waiting), self._share.prompts, MAX_PROMPTS_PER_PUT)
        return [self._pick(self._waiting.popleft()) for _ in range(count)]

    def hear(self, positions: np.ndarray, rewards: np.ndarray) -> None:
        """Rewards of whole groups, float64 [B], NaN where invalid; `positions` int64 [B].

        A position counts once, and only if it was drawn.
        """
        heard: dict[int, list[float | None]] = {}
        for position, reward in zip(positions.tolist(), rewards.tolist(), strict=True):
            if position < len(self._indices) and not self._heard[position]:
                heard.setdefault(position, []).append(None if np.isnan(reward) else reward)
        if heard:
            self._journal.append({"heard": {str(p): group for p, group in heard.items()}}, safe=False)
            self._take_in(heard, live=True)
            self._save_at_times()

    def metrics(self) -> dict[str, float]:
        return {
            "data/prompts_heard": float(self._heard.count(1)),
            **self._group_sizes(),
            **self._figures.metrics(self._sampler),
        }

    def _group_sizes(self) -> dict[str, float]:
        """Of the newest positions, as many as a step has."""
        newest = self._samples[-self._share.prompts :]
        if not newest:
            return {}
        return {
            "data/group_size/mean": sum(newest) / len(newest),
            "data/group_size/min": float(min(newest)),
            "data/group_size/max": float(max(newest)),
        }

    def close(self) -> None:
        """Saves where it stands, so that the next life needs no replay."""
        if self._covered < self._journal.lines:
            self._save()

    def _pick(self, position: int) -> Pick:
        return Pick(
            position=position,
            index=self._indices[position],
            samples=self._samples[position],
            epoch=position // self._share.size,
        )

    def _draw(self) -> Record:
        """The next step's prompts and their samples; none where the data has ended."""
        indices = self._sampled(self._share.prompts)
        if len(indices) == 0:
            return {"indices": [], "samples": []}
        if indices.min() < 0 or indices.max() >= self._share.size:
            raise IndexError(
                f"the sampler drew {indices.min()} to {indices.max()} of {self._share.size} prompts; indices "
                "go from 0 to the data's size, exclusive"
            )
        budget = len(indices) * self._share.samples_per_prompt
        samples = np.asarray(self._allocator.allocate(indices, budget), dtype=np.int64)
        if samples.shape != indices.shape or samples.min() < 0 or not 0 < samples.max() <= self._share.most:
            raise BudgetError(
                f"the allocator gave {samples.tolist()} samples to {len(indices)} prompts; each may get 0 to "
                f"{self._share.most}, not all 0: keep to the bounds, or raise budget.high"
            )
        return {"indices": indices.tolist(), "samples": samples.tolist()}

    def _sampled(self, count: int) -> np.ndarray:
        try:
            return np.asarray(self._sampler.draw(count), dtype=np.int64)
        except IndexError:
            return np.array([] if count == 1 else self._singly(count), dtype=np.int64)

    def _singly(self, count: int) -> list[int]:
        """The last prompts of data that ends within a step."""
        drawn: list[int] = []
        while len(drawn) < count and len(one := self._sampled(1)):
            drawn += one.tolist()
        return drawn

    def _register(self, record: Record) -> None:
        """Gives the prompts that get samples their positions; one left out has none."""
        kept = [(i, n) for i, n in zip(record["indices"], record["samples"], strict=True) if n]
        self._indices.extend(index for index, _ in kept)
        self._samples.extend(samples for _, samples in kept)
        self._heard.extend(bytes(len(kept)))
        self._figures.drawn([index for index, _ in kept])

    def _take_in(self, heard: dict[int, list[float | None]], *, live: bool) -> None:
        """Tells sampler and allocator whenever a step's groups are together."""
        for position, rewards in heard.items():
            self._heard[position] = 1
            if not live:
                continue
            self._pending[position] = rewards
            if len(self._pending) >= self._share.prompts:
                feedback = self._feedback()
                self._pending = {}
                self._sampler.update(feedback)
                self._allocator.update(feedback)
                self._figures.heard(feedback)

    def _feedback(self) -> Feedback:
        """Of the pending groups; advantages are z-scores of the group, whatever the trainer credits."""
        sizes = [len(group) for group in self._pending.values()]
        positions = np.repeat(np.fromiter(self._pending, dtype=np.int64), sizes)
        rewards = np.array([r for group in self._pending.values() for r in group], dtype=np.float64)
        prompts = np.array([self._indices[position] for position in positions.tolist()], dtype=np.int64)
        return Feedback(prompts=prompts, rewards=rewards, advantages=group_zscore(rewards, positions))

    def _take_over(self, order: DataOrder, end: int) -> None:
        """A run that began without a sampler has used some of the positions below `end`."""
        if (first := len(self._indices)) < end:
            indices = [order.at(position)[1] for position in range(first, end)]
            samples = [self._share.samples_per_prompt] * len(indices)
            record = {"indices": indices, "samples": samples, BY_ORDER: True}
            self._journal.append(record, safe=True)
            self._register(record)

    def _save_at_times(self) -> None:
        if self._journal.lines - self._covered >= SNAPSHOT_EVERY_LINES:
            self._save()

    def _save(self) -> None:
        state = {
            "sampler": self._sampler.state(),
            "budget": self._allocator.state(),
            "pending": {str(position): rewards for position, rewards in self._pending.items()},
        }
        self._journal.save(state)
        self._covered = self._journal.lines

    def _restore(self) -> None:
        past = self._journal.recall()
        if past.snapshot is not None:
            state = past.snapshot.state
            self._sampler.load_state(state["sampler"])
            self._allocator.load_state(state["budget"])
            self._pending = _by_position(state["pending"])
            self._covered = past.snapshot.lines
        for number, record in enumerate(past.records):
            self._replay(record, number, live=number >= self._covered)

    def _replay(self, record: Record, number: int, *, live: bool) -> None:
        if "heard" in record:
            self._take_in(_by_position(record["heard"]), live=live)
            return
        if live and BY_ORDER not in record and (again := self._draw()) != record:
            raise JournalError(
                f"line {number + 1} of the source's log says {record}, and the sampler now draws {again}: "
                "the data set, the options or the sampler's own code have changed since the source died; "
                "start it once as it was, or draw by numbers of the seed alone"
            )
        self._register(record)


def _by_position(heard: dict[str, Any]) -> dict[int, list[float | None]]:
    return {int(position): rewards for position, rewards in heard.items()}
