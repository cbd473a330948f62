from collections import deque

import numpy as np

from headrace.services.rollout.engines.base import Request
from headrace.services.rollout.engines.decoding.prefixes import Prefix, places, share, take_for_prefill
from headrace.services.rollout.engines.decoding.slots import Sample, compaction


def sample(group: int, prompt: list[int], carried: list[int] | None = None) -> Sample:
    carry = None
    if carried:
        carry = {"token_ids": carried, "logprobs": [0.0] * len(carried), "versions": [0] * len(carried)}
    request = Request(uid=0, group=group, prompt_ids=np.array(prompt), seed=0, carry=carry)
    return Sample(request=request, owner=None)


def test_slots_that_leave_are_filled_from_the_end() -> None:
    sources, targets = compaction(np.array([1, 4]), 6)
    assert (sources.tolist(), targets.tolist()) == ([5], [1])
    sources, targets = compaction(np.array([4, 5]), 6)
    assert (sources.tolist(), targets.tolist()) == ([], [])


def test_samples_of_a_group_share_a_prefix_and_a_carried_one_has_its_own() -> None:
    prefixes = share([sample(0, [5, 6]), sample(1, [5, 6]), sample(0, [5, 6], [7]), sample(0, [5, 6])])
    assert [(p.token_ids.tolist(), len(p.pending)) for p in prefixes] == [
        ([5, 6], 2),
        ([5, 6], 1),
        ([5, 6, 7], 1),
    ]


def test_rows_are_laid_out_by_prefix() -> None:
    row_at, place_of_row = places(np.array([1, 0, 1, 1]), 2)
    assert row_at.tolist() == [1, 0, 0, 0, 2, 3]
    assert place_of_row.tolist() == [3, 0, 4, 5]


def test_a_prefill_takes_what_fits_and_at_least_one() -> None:
    def waiting(*lengths: int) -> deque[Prefix]:
        return deque(
            Prefix(token_ids=np.zeros(n, dtype=np.int64), pending=deque([sample(0, [1])] * 2))
            for n in lengths
        )

    assert len(take_for_prefill(waiting(4, 4, 4), free_rows=9, max_tokens=8)) == 2
    assert len(take_for_prefill(waiting(4, 5), free_rows=9, max_tokens=9)) == 1
    assert len(take_for_prefill(waiting(40), free_rows=9, max_tokens=8)) == 1
    assert len(take_for_prefill(waiting(1, 1, 1), free_rows=3, max_tokens=8)) == 2
    assert take_for_prefill(waiting(1), free_rows=0, max_tokens=8) == []
