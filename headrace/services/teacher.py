"""The teacher: log-probabilities of the answers under a policy of its own, which no trainer trains."""

from typing import TYPE_CHECKING

from headrace.services.base import Context
from headrace.services.models import check_same_tokens
from headrace.services.scoring.frozen import FrozenScorer, policy_scores

if TYPE_CHECKING:
    from headrace.services.scoring.score import TokenScores


class Teacher(FrozenScorer):
    """Scores leased rows with the teacher's model; the column of `columns.TEACHER`."""

    column = "teacher_logprobs"

    def open_model(self, context: Context) -> "TokenScores":
        """Raises ValueError where the teacher's tokens are not those of the answers."""
        check_same_tokens(context.policy.model, context.flow.model)
        return policy_scores(context)
