"""The critic: the reward that a value model expects before each answer token, trained in the run or not."""

from headrace.services.base import Context
from headrace.services.models import check_same_tokens
from headrace.services.scoring.following import FollowingScorer
from headrace.services.scoring.scorer import ScoringModel


class Critic(FollowingScorer):
    """Scores leased rows with a value model; the column of `columns.CRITIC`."""

    column = "values"

    def open_model(self, context: Context) -> ScoringModel:
        """Raises ValueError where the model is no value model or its tokens are not those of the answers."""
        from headrace.services.models.value import load_value
        from headrace.services.scoring.values import PackedValues

        check_same_tokens(context.policy.model, context.flow.model)
        loaded = load_value(context.policy.model, dtype=context.policy.dtype, seed=context.weights_seed)
        packed = PackedValues(loaded.model)
        return ScoringModel(model=packed.model, scores=packed.values)
