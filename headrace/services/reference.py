"""The reference: log-probabilities of the answers under the policy's initial weights, which never change."""

from typing import TYPE_CHECKING

from headrace.services.base import Context
from headrace.services.scoring.frozen import FrozenScorer, policy_scores

if TYPE_CHECKING:
    from headrace.services.scoring.score import TokenScores


class Reference(FrozenScorer):
    """Scores leased rows with the model that the policy started from; the column of `columns.REFERENCE`."""

    column = "reference_logprobs"

    def open_model(self, context: Context) -> "TokenScores":
        return policy_scores(context)
