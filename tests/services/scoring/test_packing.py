import numpy as np
import pytest

from headrace.services.scoring.packing import Tree, pack


def ids(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def test_a_group_is_its_prompt_once_and_then_its_answers_without_their_last_tokens() -> None:
    (packed,) = pack(
        [ids(1, 2, 3)] * 3, [ids(4, 5, 6), ids(7), ids(8, 9)], np.array([0, 0, 0]), max_tokens=100
    )
    assert packed.input_ids.tolist() == [1, 2, 3, 4, 5, 8]
    assert packed.position_ids.tolist() == [0, 1, 2, 3, 4, 3]
    assert packed.targets.tolist() == [4, 5, 6, 7, 8, 9]
    assert packed.scored_from.tolist() == [2, 3, 4, 2, 2, 5]
    assert packed.lengths.tolist() == [3, 1, 2]
    assert packed.trees == (Tree(start=0, prompt=3, answers=(2, 0, 1)),)


def test_groups_that_arrive_interleaved_are_laid_out_together() -> None:
    prompts = [ids(1), ids(2, 2), ids(1), ids(2, 2)]
    (packed,) = pack(
        prompts, [ids(3, 3), ids(4, 4), ids(5, 5), ids(6, 6)], np.array([7, 3, 7, 3]), max_tokens=9
    )
    assert packed.index.tolist() == [1, 3, 0, 2]
    assert packed.input_ids.tolist() == [2, 2, 4, 6, 1, 3, 5]


def test_longest_groups_come_first_and_no_pack_passes_the_limit() -> None:
    prompts = [np.full(length, 1) for length in (2, 5, 3, 4)]
    packs = pack(prompts, [ids(9)] * 4, np.arange(4), max_tokens=7)
    assert [packed.index.tolist() for packed in packs] == [[1], [3, 2], [0]]


def test_a_group_beyond_the_limit_is_divided_with_its_prompt_in_each_part() -> None:
    packs = pack([ids(1, 2)] * 4, [ids(3, 4, 5)] * 4, np.zeros(4, dtype=int), max_tokens=6)
    assert [packed.trees for packed in packs] == [(Tree(start=0, prompt=2, answers=(2, 2)),)] * 2


def test_a_single_sample_beyond_the_limit_stands_alone() -> None:
    packs = pack([ids(1, 2)] * 2, [ids(3, 4, 5, 6), ids(7)], np.array([0, 1]), max_tokens=1)
    assert [len(packed.input_ids) for packed in packs] == [5, 2]


def test_empty_answers_are_left_out_and_nothing_packs_to_nothing() -> None:
    (packed,) = pack([ids(1)] * 2, [ids(), ids(2)], np.array([0, 0]), max_tokens=5)
    assert packed.index.tolist() == [1]
    assert pack([ids(1)], [ids()], np.array([0]), max_tokens=5) == []
    assert pack([], [], np.array([], dtype=np.int64), max_tokens=5) == []


def test_prompts_that_differ_within_a_group_are_refused() -> None:
    with pytest.raises(ValueError, match="group 4 has different prompts"):
        pack([ids(1, 2), ids(1, 3)], [ids(1), ids(1)], np.array([4, 4]), max_tokens=10)


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="prompt of group 4 is empty"):
        pack([ids()], [ids(1)], np.array([4]), max_tokens=10)
