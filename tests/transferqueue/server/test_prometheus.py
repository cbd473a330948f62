from collections.abc import Callable
from typing import Any

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from headrace.transferqueue import Stats
from headrace.transferqueue.server.prometheus import prometheus_text

Make = Callable[..., Any]


def figures(stats: Stats) -> dict[tuple[str, ...], float]:
    """By name and label values."""
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(prometheus_text(stats))
        for sample in family.samples
    }


async def test_live_staleness_and_counts_reach_prometheus(connect: Make, spec: Make, prompts: Make) -> None:
    """Six groups of one: two are trained on, then one is generated at version 0 and one begun at 1."""
    client = await connect("all")
    await client.create(spec(units_per_step=2, staleness=2.0))
    await client.put("samples", range(6), prompts(6), groups=range(6))

    async def roll(version: int, want: int) -> Any:
        lease = await client.lease("roll", want, version=version, timeout_s=60)
        cells = [np.full(4, version, np.int32)] * len(lease)
        await client.put("samples", lease.rows.uids, {"response": cells, "versions": cells}, lease=lease)
        await client.ack(lease)

    await roll(0, 2)
    await client.put("samples", [0, 1], {"reward": [1.0, 1.0]})
    batch = await client.lease("learn", 2, timeout_s=60)
    await client.commit("learn", 0, batch.rows.uids)
    await roll(0, 1)
    await client.publish("actor", 1, "sum")
    await client.lease("roll", 1, version=1, timeout_s=60)
    table = (await client.stats()).tables["samples"]
    assert (table.staleness_in_flight, table.staleness_in_queue) == ({0: 1}, {1: 1})
    assert table.staleness_trained == {0: 2}
    assert table.trained_over_dispatched_length == 1.0
    read = figures(await client.stats())
    assert read["headrace_table_staleness_in_flight", "0", "samples"] == 1
    assert read["headrace_table_staleness_in_queue", "1", "samples"] == 1
    assert read["headrace_table_staleness_trained", "0", "samples"] == 2
    assert read["headrace_table_created_total", "samples"] == 6
    assert read["headrace_task_rows", "leased", "roll", "samples"] == 1
    assert read["headrace_task_rows", "parked", "roll", "samples"] == 0
    assert read[("headrace_queue_forgotten_total",)] == 0
    assert read["headrace_policy_version", "actor"] == 1


async def test_a_task_that_is_over_reaches_prometheus(connect: Make, spec: Make) -> None:
    client = await connect("all")
    await client.create(spec())
    await client.finish("learn")
    read = figures(await client.stats())
    assert read["headrace_task_over", "learn", "samples"] == 1
    assert read["headrace_task_over", "roll", "samples"] == 0


async def test_long_answers_that_are_dropped_show_in_the_lengths_that_are_trained_on(
    connect: Make, spec: Make, prompts: Make
) -> None:
    """A27: answers of 1 and of 9 tokens, 5 on average; the short one alone is trained on."""
    client = await connect("all")
    await client.create(spec(units_per_step=2))
    await client.put("samples", [0, 1], prompts(2), groups=[0, 1])
    lease = await client.lease("roll", 2, version=0, timeout_s=60)
    cells = [np.zeros(length, np.int32) for length in (1, 9)]
    await client.put("samples", [0, 1], {"response": cells, "versions": cells}, lease=lease, ack=True)
    await client.put("samples", [0, 1], {"reward": [1.0, 1.0]})
    await client.drop("samples", [1], "too long")
    batch = await client.lease("learn", 2, timeout_s=60)
    await client.commit("learn", 0, batch.rows.uids)
    table = (await client.stats()).tables["samples"]
    assert (table.dispatched_length_mean, table.trained_length_mean) == (5.0, 1.0)
    assert (table.trained_over_dispatched_length, table.dropped) == (0.2, {"too long": 1})
