from typing import Any

import numpy as np
import pytest

from headrace.services.trainer.samples import Samples
from headrace.services.trainer.tokens import group_totals


def columns(**changed: Any) -> dict[str, Any]:
    two = [np.zeros(2), np.zeros(3)]
    return {
        "uids": np.array([5, 6]),
        "groups": np.array([0, 0]),
        "prompt_ids": [np.ones(1), np.ones(1)],
        "response_ids": two,
        "behaviour_logprobs": two,
        "loss_mask": two,
        "rewards": np.zeros(2),
        "advantages": np.zeros(2),
    } | changed


def test_columns_of_one_length_are_samples() -> None:
    assert len(Samples(**columns())) == 2


@pytest.mark.parametrize("name", ["groups", "prompt_ids", "loss_mask", "advantages", "reference_logprobs"])
def test_a_column_of_another_length_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} has 1 entries for 2 samples"):
        Samples(**columns(**{name: [np.zeros(2)]}))


@pytest.mark.parametrize("name", ["behaviour_logprobs", "loss_mask", "reference_logprobs"])
def test_an_answer_whose_columns_disagree_is_refused_by_uid(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} of sample 6 has 1 entries for 3 answer tokens"):
        Samples(**columns(**{name: [np.zeros(2), np.zeros(1)]}))


def test_trained_tokens_are_summed_by_group() -> None:
    assert group_totals(np.array([1, 2, 4]), np.array([9, 3, 9])).tolist() == [5, 2, 5]


def test_credit_by_token_and_further_columns_are_as_long_as_the_answers() -> None:
    for changed in ({"advantages": [np.zeros(2), np.zeros(1)]}, {"columns": {"moods": [np.zeros(2)] * 2}}):
        with pytest.raises(ValueError, match=r"of sample 6 has [12] entries for 3 answer tokens"):
            Samples(**columns(**changed))
