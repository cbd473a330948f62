"""Rollouts, a scorer and a trainer on random schedules, a virtual clock: the bound holds, none is stuck.

Replicas and trainers die, and a node that holds half of the cells is cut off, comes back, or is lost.
"""

import heapq
import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headrace.transferqueue import StepRefused
from headrace.transferqueue.state.parking import park, unpark
from headrace.transferqueue.state.records import Block
from headrace.transferqueue.state.reissue import lose
from headrace.transferqueue.state.table import Table

STEPS = 12
GROUP = 2
DEATH, DROP, LAG_STEPS = 0.05, 0.05, 3
CUT_EVERY, LOST = 15.0, 0.2
STALENESS = [0.0, 0.3, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 7.5, 8.0, math.inf]


class Schedule:
    """One seed: events on a heap, each a callback at its time; lengths are log-normal."""

    def __init__(self, bench: Any, seed: int, *, steps: int = STEPS) -> None:
        self.bench = bench
        self.steps = steps
        self.cuts = self.losses = 0
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
        bench.block = self.block

    def block(self) -> Block:
        return Block(segment="s", offset=0, length=100, node=self.random.choice(["", "b"]))

    def at(self, delay: float, event: Callable[[], None]) -> None:
        self.serial += 1
        heapq.heappush(self.events, (self.clock + delay, self.serial, event))

    def run(self) -> None:
        for replica in range(len(self.replicas)):
            self.at(0.0, lambda replica=replica: self.rollout(replica))
        self.at(0.0, self.train)
        self.at(self.random.expovariate(1 / CUT_EVERY), self.cut)
        while self.step < self.steps:
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

    def cut(self) -> None:
        """Node b is away, about as long as a rollout takes; then it is back, or its cells are lost."""
        self.cuts += 1
        park(self.table, "b")
        lost = self.random.random() < LOST
        self.at(self.random.lognormvariate(0.5, 1.0), self.lose if lost else self.mend)

    def mend(self) -> None:
        unpark(self.table, "b")
        self.at(self.random.expovariate(1 / CUT_EVERY), self.cut)

    def lose(self) -> None:
        self.losses += 1
        self.mend()
        lose(self.table, lambda block: block.node == "b", "node b was lost")
        rows = self.table.shelf.rows
        self.batch = [uid for uid in self.batch if uid in rows and rows[uid].leased & self.learn_bit]

    @property
    def learn_bit(self) -> int:
        return self.table.flows["learn"].bit

    def refresh(self, replica: int) -> None:
        """Takes up a newer version, or lags behind."""
        newest = self.table.newest_version
        oldest = max(self.replicas[replica], newest - LAG_STEPS)
        self.replicas[replica] = self.random.randint(oldest, newest)
        if self.random.random() < 0.5:
            self.replicas[replica] = newest
        self.rollout(replica)

    def finish(self, replica: int, lease: int, uids: list[int]) -> None:
        rows = self.table.leases.get(lease).rows if self.table.leases.holds(lease) else {}
        uids = [uid for uid in uids if uid in rows]
        if not uids:
            self.refresh(replica)
            return
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
        self.bench.score()
        self.batch += self.bench.learn(self.random.choice([1, 4, 100]))
        groups = {self.table.shelf.rows[uid].group.number for uid in self.batch}
        if len(groups) == self.table.spec.units_per_step:
            self.bench.commit(self.step, self.batch)
            self.trained += self.batch
            self.batch = []
            self.step += 1
            self.table.publish(self.step)
        self.at(0.3, self.train)


def simulate(bench: Any, staleness: float, seeds: range, steps: int) -> Counter[str]:
    """Runs every schedule; returns how often the rare things happened."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        schedule = Schedule(
            bench(staleness=staleness, units_per_step=1 + seed % 4, max_attempts=10, lease_s=1e6),
            seed,
            steps=steps,
        )
        schedule.run()
        ledger, window = schedule.table.ledger, schedule.table.window
        assert window is not None
        assert ledger.violations == 0, f"seed {seed}"
        assert max(ledger.staleness) <= (math.ceil(staleness) if staleness < math.inf else math.inf)
        assert len(set(schedule.trained)) == len(schedule.trained) == ledger.trained
        assert ledger.lost(len(schedule.table.shelf.rows) - schedule.table.shelf.consumed) == 0
        assert window.outstanding == sum(window.due.values())
        happened += Counter(cuts=schedule.cuts, losses=schedule.losses, greatest=0)
        happened["greatest"] = max(happened["greatest"], *ledger.staleness)
    return happened


@pytest.mark.parametrize("staleness", STALENESS)
def test_the_bound_holds_on_every_schedule_and_none_is_stuck(bench: Any, staleness: float) -> None:
    simulate(bench, staleness, range(25), STEPS)


@pytest.mark.parametrize(
    "schedules", [pytest.param(250, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize("staleness", STALENESS)
def test_the_bound_holds_on_many_schedules_and_none_is_stuck(
    bench: Any, staleness: float, schedules: int
) -> None:
    happened = simulate(bench, staleness, range(schedules), STEPS)
    assert min(happened["cuts"], happened["losses"]) > schedules / 10
    if staleness < math.inf:
        assert happened["greatest"] == math.ceil(staleness), "the bound was reached"


def test_a_step_is_not_committed_twice_by_two_trainers(bench: Any) -> None:
    schedule = Schedule(bench(units_per_step=1), 0)
    schedule.run()
    with pytest.raises(StepRefused):
        schedule.bench.commit(0, [10**6])
