"""Orders of leases as a table decides them, by hand."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headrace.transferqueue import Column, Sampling, SchemaError, TableSpec, Task
from headrace.transferqueue.disk import graph
from headrace.transferqueue.state.leases import LeaseIds
from headrace.transferqueue.state.records import Block, Entry
from headrace.transferqueue.state.table import Table

COLUMNS = (
    Column(name="tokens", dtype="list<int32>", aligned="answer"),
    Column(name="urgency", dtype="float32"),
)


def make(sampling: Sampling | None, *, whole: bool = False) -> Table:
    task = Task(name="work", reads=("tokens",), sampling=sampling, needs_full_group=whole)
    return Table(TableSpec(name="t", columns=COLUMNS, tasks=(task,)), lease_ids=LeaseIds())


def put(table: Table, lengths: list[int], *, first: int = 0, size: int = 1, **more: Any) -> None:
    uids = list(range(first, first + len(lengths)))
    block = Block(segment="s", offset=0, length=10)
    groups = [uid // size for uid in uids]
    entry = Entry(uids=uids, columns=3, block=block, groups=groups, lengths={"answer": lengths}, **more)
    table.put(0.0, entry)


def take(table: Table, want: int, rank: int | None = None) -> tuple[int, list[int]]:
    held = table.lease(0.0, "work", want, holder="h", version=None, rank=rank)
    return (0, []) if held is None else (held.id, list(held.rows))


def test_without_a_sampling_the_oldest_rows_go_first() -> None:
    table = make(None)
    put(table, [5, 1, 3])
    assert take(table, 2)[1] == [0, 1]


def test_the_shortest_rows_go_first_and_the_oldest_of_equals() -> None:
    table = make(Sampling(kind="shortest_first", by="answer"))
    put(table, [5, 1, 3, 1])
    assert take(table, 9)[1] == [1, 3, 2, 0]


def test_a_group_is_as_long_as_all_its_rows() -> None:
    table = make(Sampling(kind="shortest_first", by="answer"), whole=True)
    put(table, [9, 1, 2, 3, 4, 4], size=2)
    assert take(table, 6)[1] == [2, 3, 4, 5, 0, 1]


def test_the_most_urgent_rows_go_first() -> None:
    table = make(Sampling(kind="priority", by="urgency"))
    put(table, [1, 1, 1], figures={"urgency": [0.5, 2.0, -1.0]})
    put(table, [1], first=3, figures={"urgency": [1.0]})
    assert take(table, 9)[1] == [1, 3, 0, 2]


def test_ranks_get_as_many_rows_each_and_about_as_many_tokens() -> None:
    """Deals of two: (8, 2) gives 8 | 2; (7, 1) gives the 7 to rank 1, as it has 2: 9 | 9; (3, 5) 14 | 12."""
    table = make(Sampling(kind="token_balanced", by="answer", ranks=2))
    put(table, [8, 2, 7, 1, 3, 5])
    assert take(table, 9, rank=0)[1] == [0, 3, 5]
    assert take(table, 9, rank=1)[1] == [1, 2, 4]
    assert table.sampler_states()["work"]["tokens"] == [14, 12]


def test_a_row_without_its_like_waits_until_the_table_ends() -> None:
    table = make(Sampling(kind="token_balanced", by="answer", ranks=2))
    put(table, [8])
    assert take(table, 9, rank=0)[1] == []
    table.end()
    assert take(table, 9, rank=0)[1] == [0]


def test_a_balanced_row_that_comes_back_stays_with_its_rank() -> None:
    table = make(Sampling(kind="token_balanced", by="answer", ranks=2))
    put(table, [8, 2])
    lease, _ = take(table, 9, rank=1)
    table.release(lease, None, reason="died")
    assert take(table, 9, rank=0)[1] == [0]
    assert take(table, 9, rank=1)[1] == [1]


def test_a_rank_is_named_exactly_where_rows_are_balanced() -> None:
    table = make(Sampling(kind="token_balanced", by="answer", ranks=2))
    for rank in (None, 2, -1):
        with pytest.raises(SchemaError, match="allowed are 0 to 1"):
            take(table, 1, rank=rank)
    with pytest.raises(SchemaError, match="allowed are None"):
        take(make(None), 1, rank=0)


def replayed(table: Table, leases: int) -> list[int]:
    seen = []
    for _ in range(leases):
        lease, uids = take(table, 1)
        seen += uids
        if uids:
            table.ack(lease, None)
    return seen


def test_a_replayed_row_is_seen_as_often_as_allowed_and_then_leaves() -> None:
    table = make(Sampling(kind="replay", uses=3, seed=1))
    put(table, [1, 1, 1, 1])
    seen = replayed(table, 20)
    assert Counter(seen) == {0: 3, 1: 3, 2: 3, 3: 3}
    assert seen != sorted(seen)
    assert (table.ledger.finished, len(table.shelf.rows)) == (4, 0)


def test_a_replay_goes_on_from_a_saved_state_as_if_nothing_had_happened() -> None:
    sampling = Sampling(kind="replay", uses=2, seed=7)
    whole = make(sampling)
    put(whole, [1] * 5)
    first, rest = replayed(whole, 1), replayed(whole, 20)
    stopped = make(sampling)
    put(stopped, [1] * 5)
    assert replayed(stopped, 1) == first
    state = json.loads(json.dumps(stopped.sampler_states()))
    assert state == {"work": {"draws": 1, "seen": [[first[0], 1]]}}
    assert Counter(first + rest) == dict.fromkeys(range(5), 2)
    fresh = make(sampling)
    fresh.flows["work"].sampler.restore(state["work"])
    put(fresh, [1] * 5)
    assert Counter(first + replayed(fresh, 20)) == dict.fromkeys(range(5), 2)


@pytest.mark.parametrize(
    "sampling",
    [
        None,
        Sampling(kind="shortest_first", by="answer"),
        Sampling(kind="priority", by="urgency"),
        Sampling(kind="token_balanced", by="answer", ranks=2),
        Sampling(kind="replay", uses=2, seed=3),
    ],
)
def test_a_table_that_is_kept_and_loaded_leases_in_the_same_order(sampling: Sampling | None) -> None:
    table = make(sampling)
    put(table, [5, 1, 9, 2, 2, 7], figures={"urgency": [1.0, 5.0, 2.0, 2.0, 9.0, 0.0]})
    rank = 0 if sampling is not None and sampling.kind == "token_balanced" else None
    table.ack(take(table, 1, rank=rank)[0], None)
    loaded = graph.load(graph.dump({"table": table}))["table"]
    assert take(loaded, 9, rank=rank)[1] == take(table, 9, rank=rank)[1]


def refused(**task: Any) -> Callable[[], TableSpec]:
    fields = {"name": "work", "reads": ("tokens",)} | task
    return lambda: TableSpec(name="t", columns=COLUMNS, tasks=(Task(**fields),))


@pytest.mark.parametrize(
    ("make_it", "why"),
    [
        (lambda: Sampling(kind="random"), "allowed are fifo"),  # type: ignore[arg-type]
        (lambda: Sampling(kind="fifo", uses=2), "does not take 'uses'; it takes nothing"),
        (lambda: Sampling(kind="priority"), "needs `by`"),
        (lambda: Sampling(kind="replay", uses=0), "at least 1"),
        (refused(sampling=Sampling(kind="shortest_first", by="x")), "columns are aligned on answer"),
        (refused(sampling=Sampling(kind="priority", by="tokens")), "scalar columns of numbers are urgency"),
        (refused(sampling=Sampling(kind="replay", uses=2), kind="train"), "only a work task"),
    ],
)
def test_a_sampling_that_cannot_work_is_refused(make_it: Callable[[], Any], why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        make_it()


def test_the_take_rule_holds_whatever_the_order(bench: Callable[..., Any]) -> None:
    """Row 2 is the shortest by far, but row 0 is due in this step, and the step has one place."""
    tasks = (
        Task(name="roll", reads=("prompt",), writes=("response", "versions"), kind="begin"),
        Task(name="score", reads=("response",), writes=("reward",)),
        Task(
            name="learn",
            reads=("reward",),
            kind="train",
            sampling=Sampling(kind="shortest_first", by="response"),
        ),
    )
    b = bench(tasks=tasks, staleness=1.0, units_per_step=1)
    b.prompts(3, 1)

    def roll(version: int, lengths: list[int]) -> None:
        lease, uids = b.lease("roll", 3, version=version)
        figures = {"floors": [version] * len(uids), "lengths": {"response": lengths}}
        b.write(uids, ("response", "versions"), lease, **figures)
        b.table.ack(lease, None)
        assert b.score() == uids

    roll(0, [9, 8])
    assert b.learn(1) == [1]
    b.commit(0, [1])
    b.table.publish(1)
    roll(1, [1])
    assert b.learn(1) == [0]


def test_rows_that_come_back_stand_among_the_oldest_again() -> None:
    table = make(None)
    put(table, [1] * 6)
    first, second = take(table, 2)[0], take(table, 2)[0]
    table.release(second, [3], reason="late", failed=False)
    table.release(first, [0], reason="late", failed=False)
    assert take(table, 9)[1] == [0, 3, 4, 5]


def test_a_row_that_was_written_late_goes_before_younger_ones() -> None:
    table = make(None)
    uids = list(range(4))
    urgent = Entry(uids=uids, columns=2, block=Block(segment="s", offset=0, length=10), groups=uids)
    table.put(0.0, urgent)
    for uid in (2, 0, 3, 1):
        block = Block(segment="s", offset=10, length=10)
        table.put(0.0, Entry(uids=[uid], columns=1, block=block, lengths={"answer": [1]}))
    assert take(table, 3)[1] == [0, 1, 2]
    assert take(table, 3)[1] == [3]
