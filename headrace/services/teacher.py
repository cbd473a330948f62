"""The teacher: log-probabilities of the answers under a policy of its own, trained in the run or not."""

from headrace.services.base import Context
from headrace.services.models import check_same_tokens
from headrace.services.scoring.following import FollowingScorer
from headrace.services.scoring.scorer import ScoringModel, language_model


class Teacher(FollowingScorer):
    """Scores leased rows with the teacher's model; the column of `columns.TEACHER`."""

    column = "teacher_logprobs"

    def open_model(self, context: Context) -> ScoringModel:
        """Raises ValueError where the teacher's tokens are not those of the answers."""
        check_same_tokens(context.policy.model, context.flow.model)
        return language_model(context)
