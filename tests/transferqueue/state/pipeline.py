"""Rollout slots, rewards and a trainer on one table under a virtual clock: nobody dies, only times differ.

Every row is put at the start; the trace of lengths and delays is given by uid, so that two tables can see the
same one. After each event whoever can go on does, at the time of that event: what waits, waits for a cause.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.transferqueue.state.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Seconds by uid."""

    lengths_s: Sequence[float]
    """From a row's begin to its last token."""
    rewards_s: Sequence[float]
    """From its last token to its reward; 0: at once."""
    train_s: float
    """From a full batch to the next version of the weights."""


@dataclass(slots=True, kw_only=True)
class Record:
    """When what happened, by uid or by step."""

    generated_s: dict[int, float] = field(default_factory=dict)
    taken_s: dict[int, float] = field(default_factory=dict)
    committed_s: list[float] = field(default_factory=list)
    trained: list[list[int]] = field(default_factory=list)
    """Uids of each step."""
    held_back: set[int] = field(default_factory=set)
    """Steps whose last places were kept from ready rows, for rows that were due and not ready."""


class Pipeline:
    """One run of a trace through the table of `bench`, with `slots` rows decoding at a time."""

    def __init__(self, bench: Any, trace: Trace, *, group: int, slots: int) -> None:
        self.record = Record()
        self._bench, self._trace = bench, trace
        self._table: Table = bench.table
        self._free, self._group = slots, group
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0
        self._batch: list[int] = []
        self._is_training = False

    def run(self, steps: int) -> Record:
        """AssertionError if the trace cannot get there."""
        self._bench.prompts(len(self._trace.lengths_s) // self._group, self._group)
        self._go_on()
        while len(self.record.trained) < steps:
            assert self._events, f"stuck at step {self._table.ledger.step} with {self._table.window}"
            self._bench.now, _, event = heapq.heappop(self._events)
            event()
            self._go_on()
        return self.record

    def _at(self, delay_s: float, event: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._events, (self._bench.now + delay_s, self._serial, event))

    def _go_on(self) -> None:
        while self._free:
            lease, uids = self._bench.lease("roll", 1, version=self._table.newest_version)
            if not uids:
                break
            self._free -= 1
            self._at(
                self._trace.lengths_s[uids[0]], lambda lease=lease, uid=uids[0]: self._generated(lease, uid)
            )
        if not self._is_training:
            self._fill()

    def _generated(self, lease: int, uid: int) -> None:
        self._bench.write(
            [uid], ("response", "versions"), lease, floors=[self._table.shelf.rows[uid].version]
        )
        self._table.ack(lease, None)
        self._free += 1
        self.record.generated_s[uid] = self._bench.now
        scored, uids = self._bench.lease("score", 1)
        assert uids == [uid]
        self._at(self._trace.rewards_s[uid], lambda: self._score(scored, uid))

    def _score(self, lease: int, uid: int) -> None:
        self._bench.write([uid], ("reward",), lease)
        self._table.ack(lease, None)

    def _fill(self) -> None:
        window = self._table.window
        assert window is not None
        fresh = self._bench.learn()
        self._batch += fresh
        self.record.taken_s |= dict.fromkeys(fresh, self._bench.now)
        if not window.places:
            self._is_training = True
            self._at(self._trace.train_s, self._commit)
        elif self._table.flows["learn"].ready:
            self.record.held_back.add(self._table.ledger.step)

    def _commit(self) -> None:
        step = self._table.ledger.step
        self._bench.commit(step, self._batch)
        self._table.publish(step + 1)
        self.record.committed_s.append(self._bench.now)
        self.record.trained.append(self._batch)
        self._batch, self._is_training = [], False
