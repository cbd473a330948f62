"""Rollouts, a scorer and a trainer on random schedules, a virtual clock: the bound holds, none is stuck."""

import heapq
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from headrace.transferqueue import StepRefused
from headrace.transferqueue.table import Table

STEPS = 12
GROUP = 2
DEATH, DROP, LAG_STEPS = 0.05, 0.05, 3


class Schedule:
    """One seed: events on a heap, each a callback at its time; lengths are log-normal."""

    def __init__(self, bench: Any, seed: int) -> None:
        self.bench = bench
        self.table: Table = bench.table
        self.random = random.Random(seed)
        self.clock = 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.serial = 0
        self.next_group = 0
        self.step = 0
        self.batch: list[int] = []
        self.replicas = [0] * self.random.choice([1, 2, 4])
        self.trained: list[int] = []

    def at(self, delay: float, event: Callable[[], None]) -> None:
        self.serial += 1
        heapq.heappush(self.events, (self.clock + delay, self.serial, event))

    def run(self) -> None:
        for replica in range(len(self.replicas)):
            self.at(0.0, lambda replica=replica: self.rollout(replica))
        self.at(0.0, self.train)
        while self.step < STEPS:
            assert self.events, f"stuck at step {self.step} with {self.table.window}"
            self.clock, _, event = heapq.heappop(self.events)
            assert self.clock < 10_000, f"no progress at step {self.step}"
            event()

    def supply(self) -> None:
        while self.table.flows["roll"].ready < 8:
            self.bench.prompts(1, GROUP, first=self.next_group)
            self.next_group += 1

    def rollout(self, replica: int) -> None:
        self.supply()
        want = self.random.choice([1, 2, 3, 8])
        held = self.table.lease(
            self.clock, "roll", want, holder=f"r{replica}", version=self.replicas[replica]
        )
        if held is None:
            self.at(0.5, lambda: self.refresh(replica))
        elif self.random.random() < DEATH:
            self.table.evict(f"r{replica}", "killed")
            self.at(1.0, lambda: self.refresh(replica))
        else:
            took = self.random.lognormvariate(0.0, 1.2)
            self.at(took, lambda: self.finish(replica, held.id, list(held.rows)))

    def refresh(self, replica: int) -> None:
        """Takes up a newer version, or lags behind."""
        newest = self.table.newest_version
        oldest = max(self.replicas[replica], newest - LAG_STEPS)
        self.replicas[replica] = self.random.randint(oldest, newest)
        if self.random.random() < 0.5:
            self.replicas[replica] = newest
        self.rollout(replica)

    def finish(self, replica: int, lease: int, uids: list[int]) -> None:
        rows = self.table.leases.get(lease).rows
        floors = [rows[uid].version for uid in uids]
        if self.random.random() < 0.1:
            carry = {uid: b"half" for uid in uids}
            self.table.release(lease, None, reason="interrupted", failed=False, carry=carry)
        else:
            self.bench.write(uids, ("response", "versions"), lease, floors=floors)
            self.table.ack(lease, None)
            self.bench.score()
            if self.random.random() < DROP:
                group = rows[uids[0]].group if uids[0] in rows else self.table.shelf.rows[uids[0]].group
                if not any(row.leased or row.consumed for row in group.rows.values()):
                    self.table.drop(list(group.rows), "filtered")
        self.refresh(replica)

    def train(self) -> None:
        if self.batch and self.random.random() < DEATH:
            self.table.evict("t", "killed")
            self.batch = []
        self.batch += self.bench.learn(self.random.choice([1, 4, 100]))
        groups = {self.table.shelf.rows[uid].group.number for uid in self.batch}
        if len(groups) == self.table.spec.units_per_step:
            self.bench.commit(self.step, self.batch)
            self.trained += self.batch
            self.batch = []
            self.step += 1
            self.table.publish(self.step)
        self.at(0.3, self.train)


@pytest.mark.parametrize("staleness", [0.0, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, math.inf])
def test_the_bound_holds_on_every_schedule_and_none_is_stuck(bench: Any, staleness: float) -> None:
    for seed in range(40):
        schedule = Schedule(
            bench(staleness=staleness, units_per_step=1 + seed % 4, max_attempts=10, lease_s=1e6), seed
        )
        schedule.run()
        ledger, window = schedule.table.ledger, schedule.table.window
        assert window is not None
        assert ledger.violations == 0, f"seed {seed}"
        assert max(ledger.staleness) <= (math.ceil(staleness) if staleness < math.inf else math.inf)
        assert len(set(schedule.trained)) == len(schedule.trained) == ledger.trained
        assert ledger.lost(len(schedule.table.shelf.rows) - schedule.table.shelf.consumed) == 0
        assert window.outstanding == sum(window.due.values())


def test_a_step_is_not_committed_twice_by_two_trainers(bench: Any) -> None:
    schedule = Schedule(bench(units_per_step=1), 0)
    schedule.run()
    with pytest.raises(StepRefused):
        schedule.bench.commit(0, [10**6])
