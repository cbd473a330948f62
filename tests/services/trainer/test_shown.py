"""Samples of a step for people to read, from rows written out by hand."""

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.services.columns import PROMPT, RESPONSE, REWARD
from headrace.services.trainer.shown import MOST_TOKENS, Shown, runs
from headrace.transferqueue import Rows, TableSpec, Task
from tests.services.bench import Remembered

SPEC = TableSpec(
    name="rows",
    columns=(*PROMPT, *RESPONSE, *REWARD),
    tasks=(Task(name="learn", reads=("reward",)),),
)


class Words:
    """A tokenizer whose token 9 stops."""

    eos_token_id = 9

    def decode(self, ids: np.ndarray, *, skip_special_tokens: bool) -> str:
        return " ".join(map(str, ids))


def rows(first: int, count: int, *, length: int = 3, reward: float = 0.5) -> Rows:
    answer = [*range(length - 1), 9]
    return Rows(
        uids=np.arange(first, first + count),
        groups=np.arange(first, first + count) >> 1,
        attempts=np.ones(count, dtype=np.int32),
        versions=np.zeros(count, dtype=np.int64),
        carries=(None,) * count,
        columns={
            "prompt_ids": pa.array([[1, 2]] * count, pa.list_(pa.int32())),
            "response_ids": pa.array([answer] * count, pa.list_(pa.int32())),
            "versions": pa.array([[3] * (length - 1) + [4]] * count, pa.list_(pa.int32())),
            "reward": pa.array([reward] * count, pa.float64(), from_pandas=False),
            "reward_invalid": pa.array(["timeout" if math.isnan(reward) else ""] * count, pa.string()),
            "finish_reason": pa.array(["stop"] * count, pa.string()),
            "reward_parts": pa.array([json.dumps({"exact": 1.0})] * count, pa.string()),
        },
        spec=SPEC,
    )


def shown(step: int, *leases: Rows, most: int, rows_per_step: int) -> list[dict[str, Any]]:
    made, report = Shown(step, most=most, rows_per_step=rows_per_step), Remembered()
    for lease in leases:
        made.add(lease)
    made.decode(Words())
    made.report(report)
    assert [event for event, _ in report.events] == ["samples"] * bool(made.samples)
    return made.samples


def test_they_are_evenly_spread_over_the_leases_of_a_step() -> None:
    leases = rows(0, 3), rows(3, 3), rows(6, 2)
    assert [s["uid"] for s in shown(5, *leases, most=4, rows_per_step=8)] == ["0", "2", "4", "6"]
    assert [s["uid"] for s in shown(5, *leases, most=2, rows_per_step=8)] == ["0", "4"]
    assert [s["uid"] for s in shown(5, *leases, most=99, rows_per_step=8)] == [str(n) for n in range(8)]
    assert shown(5, *leases, most=0, rows_per_step=8) == []


def test_more_rows_than_a_step_was_to_have_show_no_more_samples() -> None:
    assert [s["uid"] for s in shown(5, rows(0, 8), most=2, rows_per_step=4)] == ["0", "2"]


def test_a_sample_has_its_texts_its_reward_and_the_versions_that_made_it() -> None:
    [sample] = shown(5, rows(1 << 60, 1), most=1, rows_per_step=1)
    assert sample.pop("taken") <= sample.pop("trained")
    assert sample == {
        "table": "rows",
        "uid": "1152921504606846976",
        "group": "576460752303423488",
        "prompt": "1 2",
        "answer": "0 1",
        "prompt_tokens": 2,
        "answer_tokens": 3,
        "reward": 0.5,
        "invalid": "",
        "parts": {"exact": 1.0},
        "finish_reason": "stop",
        "versions": [[3, 2], [4, 1]],
        "staleness": 2,
    }


def test_an_invalid_reward_is_no_number_and_says_why() -> None:
    [sample] = shown(5, rows(0, 1, reward=math.nan), most=1, rows_per_step=1)
    assert (sample["reward"], sample["invalid"]) == (None, "timeout")


def test_of_a_long_answer_the_beginning_is_shown() -> None:
    [sample] = shown(5, rows(0, 1, length=5000), most=1, rows_per_step=1)
    assert (len(sample["answer"].split()), sample["answer_tokens"]) == (MOST_TOKENS, 5000)


@pytest.mark.parametrize(
    ("versions", "expected"), [([], []), ([3], [[3, 1]]), ([3, 3, 5, 4], [[3, 2], [5, 1], [4, 1]])]
)
def test_versions_are_runs(versions: list[int], expected: list[list[int]]) -> None:
    assert runs(versions) == expected
