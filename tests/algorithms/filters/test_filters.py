from pathlib import Path

import numpy as np
import pytest

from headrace.algorithms.filters import (
    Attempts,
    Chain,
    FilterExhausted,
    Overlong,
    PythonFilterOptions,
    Retokenised,
    ScoredRows,
    Verdict,
    ZeroVariance,
    build_filter,
)

NAN = float("nan")


def rows(
    rewards: list[float],
    groups: list[int],
    truncated: list[bool] | None = None,
    retokenises: list[bool] | None = None,
) -> ScoredRows:
    return ScoredRows(
        groups=np.array(groups),
        rewards=np.array(rewards),
        truncated=np.array(truncated or [False] * len(groups)),
        retokenises=np.array(retokenises or [True] * len(groups)),
    )


def test_groups_that_teach_nothing_are_dropped_each_with_its_reason() -> None:
    noise = 0.30000000000000004 - 0.2
    verdict = ZeroVariance().judge(
        rows([1, 0, 1, 1, NAN, NAN, 1, NAN, 0.1, noise], [1, 1, 2, 2, 3, 3, 4, 4, 5, 5])
    )
    assert verdict.groups == {
        2: "equal_rewards",
        3: "no_valid_reward",
        4: "single_reward",
        5: "equal_rewards",
    }
    assert verdict.rows == {}


def test_a_least_spread_drops_narrow_groups() -> None:
    verdict = ZeroVariance(min_std=0.3).judge(rows([1, 0, 0.5, 0.6], [1, 1, 2, 2]))
    assert verdict.groups == {2: "narrow_rewards"}
    with pytest.raises(ValueError, match="min_std is -1"):
        ZeroVariance(min_std=-1)


def test_truncated_answers_are_masked_and_a_group_of_them_is_dropped() -> None:
    verdict = Overlong().judge(rows([1, 0, 1, 1], [1, 1, 2, 2], [True, False, True, True]))
    assert verdict.groups == {2: "all_truncated"}
    assert verdict.rows == {0: "truncated"}


def test_answers_that_text_would_not_give_again_are_masked_and_no_group_is_dropped() -> None:
    judged = rows([1, 0, 1, 1], [1, 1, 2, 2], retokenises=[True, False, False, False])
    assert Retokenised().judge(judged) == Verdict(rows={1: "retokenised", 2: "retokenised", 3: "retokenised"})
    chained = Chain([ZeroVariance(), Retokenised()]).judge(judged)
    assert chained == Verdict(groups={2: "equal_rewards"}, rows={1: "retokenised"})


def test_in_a_chain_the_first_filter_gives_the_reason_and_rows_of_dropped_groups_need_none() -> None:
    chain = Chain([ZeroVariance(), Overlong()])
    verdict = chain.judge(
        rows([1, 1, 1, 0, 1, 1], [1, 1, 2, 2, 3, 3], [True, True, True, False, True, False])
    )
    assert verdict.groups == {1: "equal_rewards", 3: "equal_rewards"}
    assert verdict.rows == {2: "truncated"}


def test_filters_have_a_state_and_refuse_one_of_another_chain() -> None:
    chain = Chain([ZeroVariance(), Overlong()])
    chain.load_state(chain.state())
    with pytest.raises(ValueError, match="the saved state has 1 filters, this run has 2"):
        chain.load_state({"filters": [{}]})
    with pytest.raises(ValueError, match="the saved state has window"):
        ZeroVariance().load_state({"window": 3})


def dropped(*groups: int) -> Verdict:
    return Verdict(groups={group: "equal_rewards" for group in groups})


def test_a_step_collects_until_it_has_its_groups() -> None:
    attempts = Attempts(groups_per_step=3, max_attempts=2)
    attempts.count(3, dropped(1, 2))
    assert (attempts.decide(), attempts.missing) == ("collect", 2)
    attempts.count(2, Verdict())
    assert (attempts.decide(), attempts.missing) == ("train", 0)


def test_used_up_attempts_stop_the_run_with_the_counts_by_reason() -> None:
    attempts = Attempts(groups_per_step=2, max_attempts=2)
    attempts.count(3, Verdict(groups={1: "equal_rewards", 2: "single_reward"}))
    attempts.count(1, dropped(3))
    with pytest.raises(FilterExhausted, match=r"of 4 seen, 1 were kept .*equal_rewards 2, single_reward 1"):
        attempts.decide()


def test_used_up_attempts_may_train_a_smaller_batch_but_never_an_empty_one() -> None:
    attempts = Attempts(groups_per_step=2, max_attempts=1, when_used_up="train_smaller")
    attempts.count(2, dropped(1))
    assert attempts.decide() == "train_smaller"
    empty = Attempts(groups_per_step=2, max_attempts=1, when_used_up="train_smaller")
    empty.count(2, dropped(1, 2))
    with pytest.raises(FilterExhausted, match="of 2 seen, 0 were kept"):
        empty.decide()


def test_groups_beyond_a_steps_need_count_for_the_next_and_its_attempts_begin_anew() -> None:
    attempts = Attempts(groups_per_step=2, max_attempts=1)
    attempts.count(4, dropped(1))
    attempts.next_step()
    assert (attempts.accepted, attempts.rejected.total(), attempts.decide()) == (1, 0, "collect")


def test_attempts_survive_a_resume() -> None:
    attempts = Attempts(groups_per_step=2, max_attempts=1)
    attempts.count(2, dropped(1))
    restored = Attempts(groups_per_step=2, max_attempts=1)
    restored.load_state(attempts.state())
    assert restored == attempts


def test_a_filter_of_ones_own_is_built_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from headrace.algorithms.filters import Verdict\n"
        "class Mine:\n"
        "    def __init__(self, *, group):\n"
        "        self.group = group\n"
        "    def judge(self, rows):\n"
        "        return Verdict(groups={self.group: 'mine'})\n"
    )
    options = PythonFilterOptions(path=f"{tmp_path / 'mine.py'}:Mine", options={"group": 2})
    assert build_filter(options).judge(rows([1.0], [2])).groups == {2: "mine"}
    assert build_filter(Overlong()) == Overlong()
    assert build_filter(Retokenised()) == Retokenised()
