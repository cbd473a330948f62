"""Policy gradients on another policy's tokens: the weight is a number, the gradient that of log pi alone.

Where the PPO clip ends the gradient of a token, these keep it, truncate its weight, or drop it on both sides.
"""

import torch

from headrace.algorithms.losses.ratio import ratio
from headrace.algorithms.losses.sequence import product_ratio
from headrace.algorithms.shapes import assert_tokens


def policy_gradient(logprobs: torch.Tensor, weights: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
    """-w A log pi per token, w detached; all [T].

    REINFORCE (https://doi.org/10.1007/BF00992696) with importance weights. With w = min(r, cap) it is CISPO
    (MiniMax-M1, https://arxiv.org/abs/2506.13585) without a lower bound. TRL's `epsilon_high` for
    CISPO is the cap itself, as here; the paper writes it as 1 + epsilon.
    """
    assert_tokens(logprobs=logprobs, weights=weights, advantages=advantages)
    return -weights.detach() * advantages * logprobs


def topr_weights(
    logprobs: torch.Tensor,
    behaviour_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    *,
    mask: torch.Tensor,
    sample: torch.Tensor,
) -> torch.Tensor:
    """1 where the advantage is at least 0, else the ratio of the answers' probabilities, at most 1; [T].

    Tapered off-policy REINFORCE (https://arxiv.org/abs/2503.14286) with its canonical bounds, [1, 1] for
    positive and [0, 1] for negative answers. Detached.
    """
    ratio_T = product_ratio(logprobs.detach(), behaviour_logprobs, mask=mask, sample=sample)
    return torch.where(advantages >= 0, torch.ones_like(ratio_T), ratio_T.clamp(max=1.0))


def masked_ratio(
    logprobs: torch.Tensor,
    behaviour_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    *,
    low: float,
    high: float,
) -> torch.Tensor:
    """-r A where low <= r <= high, else 0 whatever the sign of A, with r = exp(current - behaviour); all [T].

    Double-sided clipping of tokens: outside the bounds the gradient is exactly 0, on either side.
    """
    assert_tokens(logprobs=logprobs, behaviour_logprobs=behaviour_logprobs, advantages=advantages)
    ratio_T = ratio(logprobs, behaviour_logprobs)
    inside_T = (ratio_T >= low) & (ratio_T <= high)
    return torch.where(inside_T, -ratio_T * advantages, torch.zeros_like(ratio_T))


def second_moment_mask(
    logprobs: torch.Tensor, behaviour_logprobs: torch.Tensor, *, mask: torch.Tensor, threshold: float
) -> torch.Tensor:
    """1 on the tokens kept, else 0: the fewest are left out that bring the mean of (log r)^2 to `threshold`.

    Second-moment trust policy optimization (https://arxiv.org/abs/2510.01161): the mean is taken
    over the tokens that are kept, and those of the largest squares go first. Equal squares go together, so
    that no order of the tokens matters. All tensors [T], of the whole batch.
    """
    assert_tokens(logprobs=logprobs, behaviour_logprobs=behaviour_logprobs, mask=mask)
    square_T = (logprobs - behaviour_logprobs).detach().square()
    trained = torch.sort(square_T[mask > 0]).values
    if len(trained) == 0:
        return torch.zeros_like(mask)
    running = trained.cumsum(0) / torch.arange(1, len(trained) + 1, device=trained.device)
    fits = (running <= threshold) & (trained < torch.cat((trained[1:], trained.new_full((1,), torch.inf))))
    limit = trained[fits][-1] if fits.any() else -torch.inf
    return torch.where((mask > 0) & (square_T <= limit), torch.ones_like(mask), torch.zeros_like(mask))
