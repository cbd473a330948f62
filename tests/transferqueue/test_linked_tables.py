"""Tasks that are over, and tables whose rows come of another's, over a real socket."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headrace.transferqueue import (
    Column,
    EndOfData,
    LeaseLost,
    Origin,
    Refused,
    RowsGone,
    SchemaError,
    TableSpec,
    Task,
    UnknownName,
    WaitTimeout,
    WriteConflict,
)

Make = Callable[..., Any]


async def test_a_trainer_that_is_done_lets_the_rest_go_on(connect: Make, spec: Make, prompts: Make) -> None:
    """A rollout that waits at the gate and a lease that waits for rows are answered by the same word."""
    client, trainer = await connect("r"), await connect("t")
    await client.create(spec(units_per_step=1))
    await client.put("samples", range(3), prompts(3), groups=range(3))
    first = await client.lease("roll", 3, version=0, timeout_s=60)
    assert first.rows.uids.tolist() == [0]
    gated = asyncio.create_task(client.lease("roll", 3, version=0, timeout_s=60))
    hungry = asyncio.create_task(trainer.lease("learn", 1, timeout_s=60))
    await asyncio.sleep(0)
    assert [(await each.stats()).waiting for each in (client, trainer)][-1] == 2
    await trainer.finish("learn")
    assert (await gated).rows.uids.tolist() == [1, 2]
    with pytest.raises(EndOfData, match="task 'learn' is over: step 0 will not be taken"):
        await hungry
    assert (await client.stats()).tables["samples"].tasks["learn"].over
    await trainer.rewind("learn", 0)
    assert not (await client.stats()).tables["samples"].tasks["learn"].over


async def test_a_trainer_that_is_done_holds_nothing_more(connect: Make, spec: Make, prompts: Make) -> None:
    client = await connect("all")
    await client.create(spec(units_per_step=1))
    await client.put("samples", [0], prompts(1), groups=[0])
    lease = await client.lease("roll", 1, version=0, timeout_s=60)
    cells = [np.zeros(2, np.int32)]
    columns = {"response": cells, "versions": cells}
    await client.put("samples", [0], columns, lease=lease, ack=True)
    await client.put("samples", [0], {"reward": [1.0]})
    held = await client.lease("learn", 1, timeout_s=60)
    await client.finish("learn")
    with pytest.raises(LeaseLost):
        await client.release(held, reason="too late")
    scored = await client.lease("score", 1, timeout_s=60)
    await client.ack(scored)
    table = (await client.stats()).tables["samples"]
    assert (table.rows, table.finished, table.trained, table.lost) == (0, 1, 0, 0)


async def test_work_that_nobody_needs_ends_and_may_go_on(connect: Make, spec: Make, prompts: Make) -> None:
    client, worker = await connect("all"), await connect("s")
    await client.create(spec(units_per_step=2))
    await client.put("samples", range(2), prompts(2), groups=range(2))
    lease = await client.lease("roll", 2, version=0, timeout_s=60)
    cells = [np.zeros(2, np.int32)] * 2
    await client.put("samples", range(2), {"response": cells, "versions": cells}, lease=lease, ack=True)
    held = await worker.lease("score", 1, timeout_s=60)
    await client.finish("score")
    with pytest.raises(EndOfData, match="task 'score' is over"):
        await worker.lease("score", 1, timeout_s=60)
    with pytest.raises(LeaseLost):
        await worker.put("samples", held.rows.uids, {"reward": [1.0]}, lease=held)
    assert (await client.stats()).tables["samples"].tasks["score"].over
    for _ in range(2):
        await client.reopen("score")
    assert (await worker.lease("score", 2, timeout_s=60)).rows.uids.tolist() == [0, 1]
    with pytest.raises(Refused, match="goes on by `rewind`"):
        await client.reopen("learn")


async def test_a_policy_that_learns_from_another_s_rows_goes_back_with_its_trainer(
    connect: Make, spec: Make
) -> None:
    """No policy gates the table, yet the versions of the one that is trained on it come again."""
    trainer, reader = await connect("t"), await connect("r")
    await trainer.create(spec(policy=None, trains="critic", rewindable=True))
    for version in range(3):
        await trainer.publish("critic", version, f"checksum {version}")
        if version < 2:
            await trainer.commit("learn", version, [])
    await trainer.rewind("learn", 1)
    with pytest.raises(WaitTimeout, match="its trainer went back and has published none since"):
        await reader.published("critic", after=0, timeout_s=0.01)
    assert await trainer.publish("critic", 1, "checksum 1") is None
    await trainer.commit("learn", 1, [])
    assert await trainer.publish("critic", 2, "another") == 0
    assert (await reader.published("critic", after=1, timeout_s=60)).timeline == 1


def test_a_table_is_gated_by_the_policy_that_is_trained_on_it(spec: Make) -> None:
    with pytest.raises(SchemaError, match="policy 'actor' gates it and 'critic' is trained on it; they must"):
        spec(trains="critic")


def solved_and_judged() -> tuple[TableSpec, TableSpec]:
    """Rows of which each has a group in the second table, whose join owes the first a verdict."""
    x, verdict = Column(name="x", dtype="int32"), Column(name="verdict", dtype="float64")
    solved = TableSpec(
        name="solved",
        columns=(x, verdict),
        tasks=(Task(name="solve", reads=("x", "verdict")),),
        owed={"verdict": "verdicts"},
    )
    judged = TableSpec(
        name="judged",
        columns=(x,),
        tasks=(Task(name="verdicts", reads=("x",), needs_full_group=True),),
        origin=Origin(table="solved", samples=2, prompts=1),
    )
    return solved, judged


async def test_a_verdict_goes_to_the_row_that_the_group_came_from(connect: Make) -> None:
    branch, join, trainer = await connect("b"), await connect("j"), await connect("t")
    solved, judged = solved_and_judged()
    with pytest.raises(UnknownName, match="'judged' come from rows of 'solved', which is not there; create"):
        await branch.create(judged)
    for spec in (solved, judged):
        await branch.create(spec)
    origin = judged.origin
    assert origin is not None
    await branch.put("solved", [0, 1], {"x": np.arange(2, dtype=np.int32)}, groups=[0, 0])
    for uid in (0, 1):
        group = origin.group_of(uid, 0)
        rows = [group << 16, group << 16 | 1]
        await branch.put("judged", rows, {"x": np.ones(2, np.int32)}, groups=[group, group])
    with pytest.raises(WaitTimeout, match=r"2 rows lack 'verdict', owed by task 'verdicts' \(from table 'ju"):
        await trainer.lease("solve", 1, timeout_s=0.01)
    lease = await join.lease("verdicts", 2, timeout_s=60)
    parent = origin.uid_of(int(lease.rows.groups[0]))
    for _ in range(2):
        await join.put("solved", [parent], {"verdict": [0.5]})
    with pytest.raises(WriteConflict):
        await join.put("solved", [parent], {"verdict": [0.75]})
    await join.ack(lease)
    assert (await trainer.lease("solve", 2, timeout_s=60)).rows["verdict"].tolist() == [0.5]
    lost = await join.lease("verdicts", 2, timeout_s=60)
    await join.drop("judged", lost.rows.uids, "no verdict")
    with pytest.raises(RowsGone, match=r"rows \[1\] are not in table 'solved': they were consumed, dropped"):
        await join.put("solved", [1], {"verdict": [1.0]})
    table = (await join.stats()).tables["solved"]
    assert (table.rows, table.dropped, table.lost) == (
        1,
        {"its group in 'judged' was lost: no verdict": 1},
        0,
    )
