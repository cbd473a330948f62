"""The clipped ratio to the proximal policy, weighted for who sampled: decoupled PPO, TIS, IcePop.

The proximal policy is that at the start of the update. While a batch takes one update it is the current
one, the ratio is 1 in value, and the weights alone carry the staleness.
"""

from headrace.algorithms.base import PolicyOutput, TokenBatch
from headrace.algorithms.clipped import ClippedRatio
from headrace.algorithms.losses import correct
from headrace.algorithms.options.policy_gradient import Corrected
from headrace.algorithms.policy_gradient import proximal_logprobs
from headrace.algorithms.surrogate import Surrogate


class CorrectedRatio(ClippedRatio):
    """AReaL's decoupled objective (https://arxiv.org/abs/2505.24298); TIS and IcePop bound its weights."""

    def __init__(self, options: Corrected) -> None:
        """Raises ValueError for bounds that admit no weight."""
        super().__init__(options)
        if options.correction_low > options.correction_high:
            raise ValueError(
                f"correction_low is {options.correction_low}, above correction_high "
                f"{options.correction_high}; no weight lies between"
            )
        self._correction = options

    def surrogate(self, policy: PolicyOutput, batch: TokenBatch) -> Surrogate:
        proximal_T = proximal_logprobs(policy, batch)
        correction = correct(
            proximal_T,
            batch.behaviour_logprobs,
            mask=batch.mask,
            sample=batch.sample,
            mode=self._correction.correction,
            level=self._correction.correction_level,
            low=self._correction.correction_low,
            high=self._correction.correction_high,
        )
        return self.clipped(policy, batch, proximal_T, correction)
