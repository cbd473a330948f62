"""What a step says of its policy update: sums by micro-batch, metrics once per step (names of METRICS.md).

Sums run over trained tokens only and add up across micro-batches; `summary` alone divides.
"""

from collections.abc import Mapping

import torch

from headrace.algorithms.base import TokenBatch
from headrace.algorithms.kl import k3
from headrace.algorithms.losses import ratio

RATIO_SQUARED = "ratio/squared"
MEANS = (
    "actor/pg_loss",
    "actor/ppo_kl",
    "actor/pg_clipfrac",
    "actor/pg_clipfrac_lower",
    "ratio/mean",
    "mismatch/logprob_abs_diff",
    "mismatch/kl",
    "mismatch/k3",
    "kl/ref_k1",
    "kl/ref_k3",
)


def surrogate_sums(
    logprobs: torch.Tensor, losses: torch.Tensor, batch: TokenBatch, *, clip_low: float, clip_high: float
) -> dict[str, torch.Tensor]:
    """Sums over trained tokens: losses, clipping, ratio to the proximal policy, distance to behaviour.

    `pg_clipfrac` counts tokens whose clipped branch is taken, on either side, `pg_clipfrac_lower` those at
    1 - clip_low. `ppo_kl` is the k1 estimate of KL(proximal || current). `mismatch/*` is behaviour against
    current, which at staleness 0 differ by the numerics of the two engines alone.
    """
    current_T, behaviour_T = logprobs.detach(), batch.behaviour_logprobs
    anchor_T = behaviour_T if batch.proximal_logprobs is None else batch.proximal_logprobs
    ratio_T = ratio(current_T, anchor_T)
    low_T = (ratio_T < 1.0 - clip_low) & (batch.advantages < 0)
    high_T = (ratio_T > 1.0 + clip_high) & (batch.advantages > 0)
    tokens = {
        "actor/pg_loss": losses.detach(),
        "actor/ppo_kl": anchor_T - current_T,
        "actor/pg_clipfrac": (low_T | high_T).to(current_T.dtype),
        "actor/pg_clipfrac_lower": low_T.to(current_T.dtype),
        "ratio/mean": ratio_T,
        RATIO_SQUARED: ratio_T.square(),
        "mismatch/logprob_abs_diff": (current_T - behaviour_T).abs(),
        "mismatch/kl": behaviour_T - current_T,
        "mismatch/k3": k3(behaviour_T, current_T),
    }
    if batch.reference_logprobs is not None:
        tokens["kl/ref_k1"] = current_T - batch.reference_logprobs
        tokens["kl/ref_k3"] = k3(current_T, batch.reference_logprobs)
    return {"tokens": batch.mask.sum()} | _masked_sums(tokens, batch.mask)


def surrogate_maxima(logprobs: torch.Tensor, batch: TokenBatch) -> dict[str, torch.Tensor]:
    """Largest ratio of a trained token to the proximal policy; 0 where no token is trained."""
    anchor_T = batch.behaviour_logprobs if batch.proximal_logprobs is None else batch.proximal_logprobs
    ratio_T = torch.where(batch.mask > 0, ratio(logprobs.detach(), anchor_T), torch.zeros_like(anchor_T))
    return {"ratio/max": ratio_T.max() if len(ratio_T) else ratio_T.sum()}


def summary(sums: Mapping[str, float], maxima: Mapping[str, float]) -> dict[str, float]:
    """Metrics of a step from its sums; empty where no token was trained.

    `is/ess` is 1 / mean(w^2) of the ratios w normalised to mean 1: the share of tokens that still count.
    """
    tokens = sums.get("tokens", 0.0)
    if tokens == 0:
        return {}
    metrics = {name: sums[name] / tokens for name in MEANS if name in sums} | dict(maxima)
    if RATIO_SQUARED in sums:
        mean, square = sums["ratio/mean"] / tokens, sums[RATIO_SQUARED] / tokens
        metrics["ratio/std"] = max(square - mean * mean, 0.0) ** 0.5
        metrics["is/ess"] = mean * mean / square
    return metrics


def clipping_is_off(metrics: Mapping[str, float], *, staleness: float) -> bool:
    """Whether the ratio is identically 1 though the samples are stale: the old ones were recomputed."""
    still = metrics.get("ratio/std") == 0.0 and metrics.get("actor/pg_clipfrac") == 0.0
    return staleness > 0 and still


def _masked_sums(tokens: Mapping[str, torch.Tensor], mask: torch.Tensor) -> dict[str, torch.Tensor]:
    stacked_NT = torch.stack(tuple(tokens.values()))
    sums_N = torch.where(mask > 0, stacked_NT, torch.zeros_like(stacked_NT)).sum(dim=1)
    return dict(zip(tokens, sums_N, strict=True))
