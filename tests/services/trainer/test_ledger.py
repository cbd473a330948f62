"""The metrics of one step from rows written out by hand."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.services.columns import PROMPT, RESPONSE, REWARD
from headrace.services.trainer.intake import Judged
from headrace.services.trainer.ledger import Ledger, queue_metrics, staleness_limit
from headrace.transferqueue import Rows, TableSpec, TableStats, Task

NAN = math.nan
SPEC = TableSpec(
    name="rows",
    columns=(*PROMPT, *RESPONSE, *REWARD),
    tasks=(Task(name="learn", reads=("reward",)),),
)


def kept(first: int, *samples: tuple[int, list[int], float, str, str, dict[str, float]]) -> Judged:
    return Judged(kept=rows(first, *samples))


def rows(
    first: int,
    *samples: tuple[int, list[int], float, str, str, dict[str, float]],
    retokenises: list[bool] | None = None,
) -> Rows:
    """Each: group, versions of its tokens, reward, why it is invalid, finish reason, parts."""
    groups, versions, rewards, invalid, finish, parts = zip(*samples, strict=True)
    size = len(samples)
    return Rows(
        uids=np.arange(first, first + size),
        groups=np.array(groups),
        attempts=np.ones(size, dtype=np.int32),
        versions=np.zeros(size, dtype=np.int64),
        carries=(None,) * size,
        columns={
            "prompt_ids": pa.array([[1, 2, 3]] * size, pa.list_(pa.int32())),
            "response_ids": pa.array([[0] * len(v) for v in versions], pa.list_(pa.int32())),
            "versions": pa.array(versions, pa.list_(pa.int32())),
            "reward": pa.array(rewards, pa.float64(), from_pandas=False),
            "reward_invalid": pa.array(invalid, pa.string()),
            "finish_reason": pa.array(finish, pa.string()),
            "retokenises": pa.array(retokenises or [True] * size, pa.bool_()),
            "reward_parts": pa.array(list(map(json.dumps, parts)), pa.string()),
        },
        spec=SPEC,
    )


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger(step=5)
    made.add(
        kept(
            0,
            (7, [5, 5], 1.0, "", "stop", {"exact": 1.0}),
            (7, [4, 5, 5, 5], 0.0, "", "length", {"exact": 0.0}),
        )
    )
    made.add(
        kept(
            2,
            (8, [3, 4, 5, 5, 5, 5], NAN, "too long", "length", {}),
            (8, [], 0.5, "", "stop", {"exact": 0.5}),
        )
    )
    return made


def test_rewards_leave_invalid_answers_out(ledger: Ledger) -> None:
    metrics = ledger.metrics(2.0)
    assert metrics["reward/mean"] == 0.5
    assert metrics["reward/std"] == pytest.approx(0.408248290, abs=1e-9)
    assert (metrics["reward/min"], metrics["reward/max"]) == (0.0, 1.0)
    assert metrics["reward/exact"] == 0.5
    assert metrics["reward/invalid_rate"] == 0.25
    assert metrics["reward/invalid/too long"] == 1.0


def test_staleness_is_the_step_minus_the_oldest_token(ledger: Ledger) -> None:
    metrics = ledger.metrics(1.0)
    assert (metrics["staleness/mean"], metrics["staleness/max"]) == (0.75, 2.0)
    assert [metrics[f"staleness/count/{s}"] for s in (0, 1, 2)] == [2.0, 1.0, 1.0]
    assert metrics["staleness/violations"] == 1.0
    assert metrics["staleness/spans_max"] == 3.0
    assert ledger.staleness_max == 2


def test_lengths_and_counts_are_of_the_whole_step(ledger: Ledger) -> None:
    metrics = ledger.metrics(2.0)
    assert (metrics["response_length/mean"], metrics["response_length/max"]) == (3.0, 6.0)
    assert metrics["response_length/p50"] == 3.0
    assert metrics["response_length/p99"] == pytest.approx(5.94)
    assert metrics["truncated_frac"] == 0.5
    assert metrics["samples/trained"] == 4.0
    assert (ledger.uids, ledger.groups, ledger.tokens) == ([0, 1, 2, 3], {7, 8}, 12)


def test_answers_that_text_would_not_give_again_are_counted(ledger: Ledger) -> None:
    assert ledger.metrics(2.0)["data/retokenisation_mismatches"] == 0.0
    plain = (8, [5, 5], 1.0, "", "stop", {})
    ledger.add(Judged(kept=rows(4, plain, plain, plain, retokenises=[False, True, False])))
    ledger.add(Judged(kept=rows(7, plain, retokenises=[False])))
    assert ledger.metrics(2.0)["data/retokenisation_mismatches"] == 3.0


def test_a_group_with_one_valid_reward_teaches_nothing(ledger: Ledger) -> None:
    assert ledger.metrics(2.0)["group/zero_std_frac"] == 0.5


def test_groups_tell_their_different_answers_and_lone_rewards(ledger: Ledger) -> None:
    """Answers of 2 and 4 tokens, and of 6 and none, all of id 0; the second group has one valid reward."""
    metrics = ledger.metrics(2.0)
    assert (metrics["group/unique_completions"], metrics["group/singletons"]) == (2.0, 1.0)
    alike = Ledger(step=0)
    alike.add(kept(0, *[(g, [0, 0], 1.0, "", "stop", {}) for g in (1, 1, 2)], (2, [0], 0.0, "", "stop", {})))
    assert alike.metrics(0.0)["group/unique_completions"] == 1.5


def test_rows_that_a_step_holds_are_committed_and_in_no_statistic() -> None:
    ledger = Ledger(step=0)
    held = rows(2, (2, [0], 0.0, "", "stop", {}), (2, [0], 0.0, "", "stop", {}))
    ledger.add(replace(kept(0, (1, [0], 1.0, "", "stop", {}), (1, [0], 0.5, "", "stop", {})), held=held))
    ledger.drop(np.array([7, 8]))
    assert (ledger.uids, ledger.groups, ledger.dropped) == ([0, 1, 2, 3], {1, 2}, [7, 8])
    metrics = ledger.metrics(0.0)
    assert (metrics["samples/trained"], metrics["reward/mean"], ledger.trained) == (2.0, 0.75, 2)


def test_a_step_without_a_valid_reward_has_no_mean() -> None:
    ledger = Ledger(step=0)
    ledger.add(kept(0, (1, [0], NAN, "timeout", "stop", {}), (1, [0], NAN, "timeout", "stop", {})))
    metrics = ledger.metrics(0.0)
    assert "reward/mean" not in metrics
    assert (metrics["reward/invalid_rate"], metrics["reward/invalid/timeout"]) == (1.0, 2.0)
    assert metrics["group/zero_std_frac"] == 1.0


@pytest.mark.parametrize(("knob", "limit"), [(0.0, 0.0), (0.5, 1.0), (1.0, 1.0), (1.2, 2.0)])
def test_the_limit_is_the_knob_rounded_up(knob: float, limit: float) -> None:
    assert staleness_limit(knob) == limit


def test_there_is_no_limit_at_infinity() -> None:
    assert staleness_limit(math.inf) == math.inf


def stats(**changes: Any) -> TableStats:
    plain: dict[str, Any] = dict.fromkeys(TableStats.__dataclass_fields__, 0)
    return TableStats(**{**plain, "dropped": {}, "quarantine": {}, "staleness_trained": {}, **changes})


def test_the_queue_s_counts_are_told_under_their_names() -> None:
    table = stats(
        duplicated=1,
        lost=2,
        quarantined=3,
        dropped={"stale": 4},
        trained_length_mean=6.0,
        dispatched_length_mean=8.0,
    )
    assert queue_metrics(table) == {
        "samples/duplicated": 1.0,
        "samples/lost": 2.0,
        "data/quarantined": 3.0,
        "samples/dropped/stale": 4.0,
        "trained_len/dispatched_len": 0.75,
    }
    assert queue_metrics(stats())["trained_len/dispatched_len"] == 1.0


def test_what_columns_tell_that_are_not_read_is_left_out() -> None:
    whole = kept(0, (7, [5, 5], 1.0, "", "stop", {"exact": 1.0}), (7, [4, 5], 0.0, "", "length", {}))
    columns = {name: whole.kept.columns[name] for name in ("prompt_ids", "response_ids", "reward")}
    bare = Ledger(step=5)
    bare.add(Judged(kept=replace(whole.kept, columns=columns)))
    assert bare.metrics(1.0) == pytest.approx(
        {
            "reward/mean": 0.5,
            "reward/std": 0.5,
            "reward/min": 0.0,
            "reward/max": 1.0,
            "reward/invalid_rate": 0.0,
            "group/zero_std_frac": 0.0,
            "group/singletons": 0.0,
            "group/unique_completions": 1.0,
            "response_length/mean": 2.0,
            "response_length/p50": 2.0,
            "response_length/p99": 2.0,
            "response_length/max": 2.0,
            "samples/trained": 2.0,
        }
    )


def test_versions_of_another_policy_s_rows_are_no_staleness() -> None:
    other = Ledger(step=9, own=False)
    other.add(kept(0, (7, [5, 5], 1.0, "", "stop", {})))
    assert other.staleness_max == 0
    assert not [name for name in other.metrics(0.0) if name.startswith("staleness/")]
