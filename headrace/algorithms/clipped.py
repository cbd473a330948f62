"""The ratio to the behaviour policy, clipped: GRPO, Dr. GRPO, DAPO, PPO, REINFORCE++, RLOO, GSPO.

They differ in what the ratio is of, a token or an answer, and in the figures of their options.
"""

import numpy as np
import torch

from headrace.algorithms.advantages import overlong_penalty
from headrace.algorithms.base import Advantages, GroupScores, PolicyOutput, TokenBatch
from headrace.algorithms.losses import (
    Correction,
    clip_surrogate,
    gspo_ratio,
    gspo_token_ratio,
    product_ratio,
    ratio,
)
from headrace.algorithms.options import DapoOptions
from headrace.algorithms.options.policy_gradient import Clipped
from headrace.algorithms.policy_gradient import PolicyGradientAlgorithm
from headrace.algorithms.surrogate import Surrogate


class ClippedRatio(PolicyGradientAlgorithm):
    """Token ratios: DeepSeekMath (https://arxiv.org/abs/2402.03300) and what keeps its surrogate."""

    def __init__(self, options: Clipped) -> None:
        """Raises ValueError for a dual clip that would cut what the clip allows."""
        super().__init__(options)
        if options.dual_clip is not None and options.dual_clip <= 1.0 + options.clip_high:
            raise ValueError(
                f"dual_clip is {options.dual_clip}; it must exceed 1 + clip_high = {1.0 + options.clip_high}"
            )
        self._low, self._high, self._dual = options.clip_low, options.clip_high, options.dual_clip

    def ratio(self, logprobs: torch.Tensor, anchor: torch.Tensor, batch: TokenBatch) -> torch.Tensor:
        """[T], of the current policy to the anchor."""
        return ratio(logprobs, anchor)

    def surrogate(self, policy: PolicyOutput, batch: TokenBatch) -> Surrogate:
        return self.clipped(policy, batch, batch.behaviour_logprobs)

    def clipped(
        self,
        policy: PolicyOutput,
        batch: TokenBatch,
        anchor: torch.Tensor,
        correction: Correction | None = None,
    ) -> Surrogate:
        """The clipped ratio to `anchor`, times the weights of `correction`."""
        ratio_T, credit_T = self.ratio(policy.logprobs, anchor, batch), batch.advantages
        losses_T = clip_surrogate(
            ratio_T, credit_T, clip_low=self._low, clip_high=self._high, dual_clip=self._dual
        )
        if correction is not None:
            losses_T = losses_T * correction.weights
        still_T = ratio_T.detach()
        return Surrogate(
            losses=losses_T,
            anchor_logprobs=anchor,
            ratio=still_T,
            low=(still_T < 1.0 - self._low) & (credit_T < 0),
            high=(still_T > 1.0 + self._high) & (credit_T > 0),
            correction=correction,
        )


class Dapo(ClippedRatio):
    """DAPO (https://arxiv.org/abs/2503.14476): token ratios, and overlong answers lose reward.

    Its dynamic sampling is a filter of rows, which stands outside of the loss.
    """

    def __init__(self, options: DapoOptions) -> None:
        """Raises ValueError where the penalty lacks the length that it ends at."""
        super().__init__(options)
        if options.overlong_share > 0 and options.sequence_length is None:
            raise ValueError("overlong_share is above 0 but sequence_length is None; give the longest answer")
        self._length = options.sequence_length or 0
        self._buffer = round(options.overlong_share * self._length)

    def advantages(self, scores: GroupScores) -> Advantages:
        if self._buffer == 0:
            return super().advantages(scores)
        penalty = overlong_penalty(scores.lengths, max_length=self._length, cache=self._buffer)
        return super().advantages(
            GroupScores(
                groups=scores.groups,
                rewards=np.asarray(scores.rewards + penalty),
                lengths=scores.lengths,
                columns=scores.columns,
            )
        )


class Gspo(ClippedRatio):
    """GSPO (https://arxiv.org/abs/2507.18071), equation 5: the answer's ratio, clipped as one."""

    def ratio(self, logprobs: torch.Tensor, anchor: torch.Tensor, batch: TokenBatch) -> torch.Tensor:
        return gspo_ratio(logprobs, anchor, mask=batch.mask, sample=batch.sample)


class GspoToken(ClippedRatio):
    """GSPO-token (https://arxiv.org/abs/2507.18071), equation 13: credit may differ within an answer."""

    def ratio(self, logprobs: torch.Tensor, anchor: torch.Tensor, batch: TokenBatch) -> torch.Tensor:
        return gspo_token_ratio(logprobs, anchor, mask=batch.mask, sample=batch.sample)


class Rloo(ClippedRatio):
    """RLOO (https://arxiv.org/abs/2402.14740): the whole answer is the action, so ratios multiply.

    The paper updates once a batch, where the ratio is 1; the clip for more is TRL's.
    """

    def ratio(self, logprobs: torch.Tensor, anchor: torch.Tensor, batch: TokenBatch) -> torch.Tensor:
        return product_ratio(logprobs, anchor, mask=batch.mask, sample=batch.sample)
