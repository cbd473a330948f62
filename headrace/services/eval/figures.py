"""What an evaluation comes to: means over the answers of one version.

Invariant: an invalid answer, or one whose scoring failed, enters no mean of a reward or a part.
"""

import math
from collections.abc import Iterable, Sequence

from headrace.services.rollout.engines import Completion
from headrace.services.verdicts.errors import RewardError
from headrace.services.verdicts.verdict import Invalid, Score, Verdict

Outcome = Verdict | RewardError


def figures(completions: Sequence[Completion], outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Mean reward and parts, shares of invalid, failed and truncated answers, mean length in tokens.

    No figure of what no answer has: without a valid one there is no reward.
    """
    scores = [outcome for outcome in outcomes if isinstance(outcome, Score)]
    parts = dict.fromkeys(name for score in scores for name in score.parts)
    count = len(outcomes)
    return {
        **{name: mean(s.parts[name] for s in scores if name in s.parts) for name in parts},
        **({"reward": mean(score.value for score in scores)} if scores else {}),
        "invalid_rate": sum(isinstance(outcome, Invalid) for outcome in outcomes) / count,
        "error_rate": sum(isinstance(outcome, RewardError) for outcome in outcomes) / count,
        "response_length": mean(float(len(each.token_ids)) for each in completions),
        "truncated_frac": mean(float(each.finish_reason == "length") for each in completions),
    }


def mean(values: Iterable[float]) -> float:
    known = list(values)
    return math.fsum(known) / len(known)
