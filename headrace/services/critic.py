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
        from headrace.services.devices import take
        from headrace.services.models.policy import load_values
        from headrace.services.scoring.values import PackedValues

        check_same_tokens(context.policy.model, context.flow.model)
        device = take(context.options.gpus)
        loaded = load_values(context.policy, seed=context.weights_seed, device=device)
        packed = PackedValues(loaded.model)
        return ScoringModel(model=packed.model, scores=packed.values)
