"""The reference: log-probabilities of the answers under the policy's initial weights, which never change."""

from headrace.services.base import Context
from headrace.services.scoring.scorer import ModelScorer, ScoringModel, language_model


class Reference(ModelScorer):
    """Scores leased rows with the model that the policy started from; the column of `columns.REFERENCE`."""

    column = "reference_logprobs"

    def open_model(self, context: Context) -> ScoringModel:
        return language_model(context)
