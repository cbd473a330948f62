import numpy as np
import pytest

from headrace.services.trainer.megatron.batches import micro_batches, shared_out, shares


def test_whole_groups_are_shared_out_the_largest_first() -> None:
    fed = np.array([2, 2, 9, 1, 5, 1])
    groups = np.array([7, 7, 3, 3, 5, 5])
    assert [own.tolist() for own in shares(fed, groups, 2)] == [[2, 3], [0, 1, 4, 5]]
    assert [own.tolist() for own in shares(fed, groups, 4)] == [[2, 3], [4, 5], [0, 1], []]


def test_rows_are_padded_on_the_right_and_scored_where_the_token_is_due() -> None:
    prompts = [np.array([1, 2]), np.array([3]), np.array([4])]
    answers = [np.array([5, 6, 7]), np.array([8]), np.array([], dtype=np.int64)]
    (batch,) = micro_batches(prompts, answers, np.arange(3), max_tokens=8)
    assert batch.input_ids.tolist() == [[1, 2, 5, 6], [3, 0, 0, 0]]
    assert batch.scored_from.tolist() == [2, 4, 6, 1]
    assert batch.targets.tolist() == [5, 6, 7, 8]
    assert (batch.lengths.tolist(), batch.index.tolist()) == ([3, 1], [0, 1])


def test_padding_counts_and_a_sample_beyond_the_limit_stands_alone() -> None:
    prompts = [np.arange(size) for size in (3, 9, 2, 3)]
    answers = [np.array([0])] * 4
    found = micro_batches(prompts, answers, np.arange(4), max_tokens=6)
    assert [batch.index.tolist() for batch in found] == [[1], [0, 3], [2]]


def test_a_rank_may_have_nothing_to_do_and_an_empty_prompt_is_refused() -> None:
    prompts, answers = [np.array([1])] * 2, [np.array([2])] * 2
    first, second = shared_out(prompts, answers, np.array([0, 0]), np.arange(2), ranks=2, max_tokens=64)
    assert (len(first), second) == (1, [])
    with pytest.raises(ValueError, match="prompt of sample 1 is empty"):
        micro_batches([np.array([1]), np.array([])], answers, np.arange(2), max_tokens=64)
