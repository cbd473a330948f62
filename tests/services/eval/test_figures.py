import numpy as np

from headrace.services.eval.figures import figures
from headrace.services.rollout.engines import Completion, FinishReason
from headrace.services.verdicts.errors import VerifierRaised
from headrace.services.verdicts.verdict import Invalid, Score


def answer(uid: int, tokens: int, reason: FinishReason = "stop") -> Completion:
    return Completion(
        uid=uid,
        token_ids=np.zeros(tokens, dtype=np.int32),
        logprobs=np.zeros(tokens, dtype=np.float32),
        versions=np.zeros(tokens, dtype=np.int32),
        finish_reason=reason,
    )


def test_invalid_and_failed_answers_enter_no_mean_of_a_reward() -> None:
    answers = [answer(0, 2), answer(1, 4), answer(2, 4, "length"), answer(3, 6, "length")]
    outcomes = [
        Score(value=1.0, parts={"exact": 1.0}),
        Score(value=0.5, parts={"exact": 0.0}),
        Invalid(reason="no number"),
        VerifierRaised("boom"),
    ]
    assert figures(answers, outcomes) == {
        "exact": 0.5,
        "reward": 0.75,
        "invalid_rate": 0.25,
        "error_rate": 0.25,
        "response_length": 4.0,
        "truncated_frac": 0.5,
    }


def test_without_a_valid_answer_there_is_no_reward() -> None:
    assert figures([answer(0, 3)], [Invalid(reason="no number")]) == {
        "invalid_rate": 1.0,
        "error_rate": 0.0,
        "response_length": 3.0,
        "truncated_frac": 0.0,
    }
