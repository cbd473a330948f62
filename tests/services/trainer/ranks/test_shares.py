import numpy as np

from headrace.services.trainer.ranks.group import ALONE
from headrace.services.trainer.ranks.shares import shares, spread


def places(lengths: list[int], groups: list[int], ranks: int) -> list[list[int]]:
    answers = [np.zeros(n, dtype=np.int32) for n in lengths]
    prompts = [np.zeros(2, dtype=np.int32)] * len(lengths)
    return [own.tolist() for own in shares(prompts, answers, np.array(groups, dtype=np.int64), ranks)]


def test_whole_groups_go_to_the_rank_with_the_fewest_tokens_the_largest_first() -> None:
    """Groups 5, 7, 9 of 2 + 6, 2 + 9 and 2 + 4 tokens: 11 to rank 0, then 8 and 6 to rank 1."""
    assert places([3, 5, 4, 3, 4], [5, 7, 7, 5, 9], 2) == [[1, 2], [0, 3, 4]]


def test_equal_groups_are_dealt_out_in_turn() -> None:
    assert places([1] * 6, [0, 1, 2, 3, 4, 5], 3) == [[0, 3], [1, 4], [2, 5]]


def test_ranks_beyond_the_groups_have_nothing() -> None:
    assert places([1, 1], [4, 4], 3) == [[0, 1], [], []]
    assert places([], [], 2) == [[], []]


def test_what_one_rank_found_of_all_is_as_it_is() -> None:
    columns = {"logprobs": [np.array([1.0]), np.array([])]}
    got = spread(columns, np.arange(2), [np.zeros(1), np.zeros(0)], ALONE)
    assert [part.tolist() for part in got["logprobs"]] == [[1.0], []]
