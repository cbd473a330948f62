"""The critic: the reward that a value model, which no trainer trains, expects before each answer token."""

from typing import TYPE_CHECKING

from headrace.services.base import Context
from headrace.services.models import check_same_tokens
from headrace.services.scoring.frozen import FrozenScorer

if TYPE_CHECKING:
    from headrace.services.scoring.score import TokenScores


class Critic(FrozenScorer):
    """Scores leased rows with a value model; the column of `columns.CRITIC`."""

    column = "values"

    def open_model(self, context: Context) -> "TokenScores":
        """Raises ValueError where the model is no value model or its tokens are not those of the answers."""
        from headrace.services.models.value import load_value
        from headrace.services.scoring.values import PackedValues

        check_same_tokens(context.policy.model, context.flow.model)
        loaded = load_value(context.policy.model, dtype=context.policy.dtype, seed=context.seed)
        return PackedValues(loaded.model).values
