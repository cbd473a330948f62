"""What a trainer does beside others: freezes by step, keeps pace at a barrier, says when it is over."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.services.data_position import DataPosition
from headrace.services.options import OptimizerOptions, PolicyOptions
from headrace.services.trainer.barrier import reached
from headrace.transferqueue import Origin, WaitTimeout
from tests.services.bench import NUMBERS, put_numbers, queue
from tests.services.trainer.bed import SPEC, Bed, Counting, bed


async def lived(b: Bed, steps: int, **flow: Any) -> list[str]:
    """Checksums of versions 0 to `steps`, each published once its batch was answered under the one before."""
    running = asyncio.create_task(b.run(steps=steps, **flow))
    await b.prompts(2 * steps)
    checksums = []
    for version in range(steps + 1):
        publication = await b.client.published("actor", after=version - 1, timeout_s=60.0)
        assert publication.version == version
        checksums.append(publication.checksum)
        if version < steps:
            await b.answer(2, version)
    await running
    return checksums


async def test_weights_stay_bit_for_bit_while_the_policy_is_frozen_and_move_again_after(
    tmp_path: Path,
) -> None:
    async with bed(tmp_path) as b:
        optimizer = OptimizerOptions(schedule="linear")
        policy = PolicyOptions(model="tiny-copier", freeze=((1, 3),), optimizer=optimizer)
        b.context = replace(b.context, policy=policy)
        first, second, third, fourth, last = await lived(b, 4)
        assert second == third == fourth
        assert len({first, second, last}) == 3
        steps = [metrics for step, metrics in b.report.lines if step is not None]
        assert [step["actor/frozen"] for step in steps] == [0.0, 1.0, 1.0, 0.0]
        assert [step.get("actor/lr") for step in steps] == [1e-3, None, None, 2.5e-4]
        assert [step["samples/trained"] for step in steps] == [4.0] * 4
        assert "actor/grad_norm" not in steps[1]
        table = (await b.client.stats()).tables["rows"]
        assert (table.step, table.trained, table.lost) == (4, 16, 0)


async def test_a_frozen_step_is_checkpointed_as_any_other_and_takes_no_optimizer_step(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path, checkpoint_every=1, keep_checkpoints=9) as b:
        b.context = replace(b.context, policy=PolicyOptions(model="tiny-copier", freeze=((0, 1), (2, 3))))
        await lived(b, 4)
        assert backend.asked == [1, 3]
        assert list(b.checkpoints().values()) == [0, 1, 1, 2]
        assert b.position(4).next == 8


async def test_a_step_begins_when_the_other_policies_have_come_as_far(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path) as b:
        running = asyncio.create_task(b.run(steps=2, barrier=("judge",)))
        await b.prompts(4)
        assert await b.version(after=-1) == 0
        await b.answer(2, 0)
        assert backend.sizes == []
        await b.client.publish("judge", 0, "a")
        assert await b.version(after=0) == 1
        await b.answer(2, 1)
        assert backend.asked == [0]
        await b.client.publish("judge", 1, "b")
        await running
        assert backend.asked == [0, 1]


async def test_two_policies_pass_the_barrier_in_step(tmp_path: Path) -> None:
    """Each publishes a version once both have come to the one before: neither is ever two ahead."""
    order: list[tuple[str, int]] = []
    async with asyncio.timeout(60), queue(tmp_path) as (_, client):

        async def train(name: str, other: str) -> None:
            await client.publish(name, 0, name)
            for step in range(3):
                await reached(client, (other,), step, timeout_s=60.0)
                order.append((name, step))
                await client.publish(name, step + 1, f"{name}{step}")

        await asyncio.gather(train("one", "two"), train("two", "one"))
    assert sorted(order, key=lambda each: each[1]) == order
    assert len(order) == 6


async def test_a_wait_at_the_barrier_names_whom_it_waits_for(tmp_path: Path) -> None:
    async with asyncio.timeout(60), queue(tmp_path) as (_, client):
        await client.publish("one", 2, "a")
        await client.publish("two", 1, "b")
        message = (
            "step 2 waits at the barrier for version 2 of policy 'two': no version of policy 'two' after 1: "
            "the newest is 1; its trainer owes it"
        )
        with pytest.raises(WaitTimeout, match=message):
            await reached(client, ("one", "two"), 2, timeout_s=0.05)


async def test_the_table_of_a_trainer_that_is_through_holds_up_none_of_the_others(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path) as b:
        running = asyncio.create_task(b.run(steps=1, trainers=2))
        await b.prompts(6)
        await b.version(after=-1)
        await b.answer(2, 0)
        await running
        assert [each["step"] for each in b.report.of("checkpoint")] == [1]
        table = (await b.client.stats()).tables["rows"]
        assert (table.trained, table.tasks["learn"].over) == (4, True)
        lease = await b.client.lease("answers", 8, version=1, timeout_s=60.0)
        assert len(lease.rows) == 8


async def test_groups_that_another_table_s_rows_made_are_no_place_in_the_data(
    tmp_path: Path, backend: Counting
) -> None:
    spec = replace(SPEC, origin=Origin(table="numbers", samples=2, prompts=2))
    async with bed(tmp_path, spec, parents=(NUMBERS,)) as b:
        await put_numbers(b.client, groups=1)
        await lived(b, 1, from_source=False)
        assert b.position(1) == DataPosition()
        (metrics,) = [metrics for step, metrics in b.report.lines if step is not None]
        assert "data/prompts_consumed" not in metrics


async def test_a_trainer_that_is_alone_leaves_its_rows_to_a_run_that_goes_on(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path) as b:
        await lived(b, 1)
        assert not (await b.client.stats()).tables["rows"].tasks["learn"].over
