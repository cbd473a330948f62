"""A join over a real queue: what comes back to rows, and what has nowhere to go any more."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.services.branched import ORIGIN, Between, between

Verdicts = Mapping[int, Sequence[float]]
"""Rewards of the rows that came of a row, by its uid."""


async def judged(b: Between, verdicts: Verdicts) -> None:
    """Rows of the branch with their rewards, and the end of their table."""
    uids = [ORIGIN.group_of(uid, 0) << 16 | sample for uid in verdicts for sample in (0, 1)]
    rewards = np.array([reward for given in verdicts.values() for reward in given])
    await b.client.put("judged", uids, {"reward": rewards}, groups=[uid >> 16 for uid in uids])
    await b.client.end("judged")


async def verdicts(b: Between) -> dict[int, float]:
    lease = await b.client.lease("learn", 10, timeout_s=60.0)
    return dict(zip(lease.rows.uids.tolist(), lease.rows["verdict"].tolist(), strict=True))


@pytest.mark.parametrize(
    ("reduce", "value"), [("mean", 0.5), ("min", 0.25), ("max", 0.75), ("sum", 1.0), ("std", 0.25)]
)
async def test_what_came_of_a_row_is_reduced_to_one_number(tmp_path: Path, reduce: str, value: float) -> None:
    async with between(tmp_path) as b:
        await b.solved(1)
        await judged(b, {0: (0.25, 0.75), 1: (0.25, 0.75)})
        await b.join(reduce=reduce)
        assert await verdicts(b) == {0: value, 1: value}


async def test_invalid_values_are_left_out_and_none_at_all_is_missing(tmp_path: Path) -> None:
    async with between(tmp_path) as b:
        await b.solved(1)
        await judged(b, {0: (np.nan, 0.75), 1: (np.nan, np.nan)})
        await b.join()
        found = await verdicts(b)
        assert found[0] == 0.75 and np.isnan(found[1])


async def test_parents_that_have_left_or_have_theirs_cost_the_others_nothing(tmp_path: Path) -> None:
    async with between(tmp_path) as b:
        await b.solved(3)
        await b.client.drop("solved", [1 << 16], "not wanted")
        await b.client.put("solved", [2 << 16], {"verdict": np.array([9.0])})
        await judged(b, {uid: (1.0, 0.0) for uid in (0, 1, 1 << 16, 1 << 16 | 1, 2 << 16, 2 << 16 | 1)})
        await b.join()
        expected = {0: 0.5, 1: 0.5, 1 << 16 | 1: 0.5, 2 << 16: 9.0, 2 << 16 | 1: 0.5}
        assert await verdicts(b) == expected
        assert b.report.of("not_joined") == [{"table": "solved", "rows": 2}]
        stats = (await b.client.stats()).tables["judged"]
        assert stats.tasks["verdicts"].done == 12 and stats.quarantined == 0
