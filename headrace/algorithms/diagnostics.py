"""What a step says of its policy update: sums by micro-batch, metrics once per step (names of METRICS.md).

Sums run over trained tokens only and add up across micro-batches; `summary` alone divides.
"""

from collections.abc import Mapping

import torch

from headrace.algorithms.base import PolicyOutput, TokenBatch
from headrace.algorithms.kl import k3
from headrace.algorithms.surrogate import Surrogate

RATIO_SQUARED = "ratio/squared"
IS_SQUARED = "is/squared"
IS_LEAST = "is/least"
"""Largest of the negated weights, so that one kind of extreme travels."""
SAMPLES = "samples"
PPL_RATIO = "mismatch/ppl_ratio"
MOMENTS = ("pearson/x", "pearson/y", "pearson/xx", "pearson/yy", "pearson/xy")
"""Of the probabilities under the behaviour (x) and the current (y) policy."""
RETURNS_SQUARED = "critic/returns_squared"
MISSED, MISSED_SQUARED = "critic/missed", "critic/missed_squared"
"""What the values before the update miss of the returns."""
MEANS = (
    "actor/pg_loss",
    "actor/ppo_kl",
    "actor/pg_clipfrac",
    "actor/pg_clipfrac_lower",
    "actor/entropy",
    "ratio/mean",
    "is/mean",
    "is/frac_clipped",
    "rs/masked_frac",
    "mismatch/logprob_abs_diff",
    "mismatch/kl",
    "mismatch/k3",
    "kl/ref_k1",
    "kl/ref_k3",
    "critic/vf_loss",
    "critic/values",
    "critic/returns",
    "critic/vf_clipfrac",
)


def surrogate_sums(policy: PolicyOutput, surrogate: Surrogate, batch: TokenBatch) -> dict[str, torch.Tensor]:
    """Sums over trained tokens: losses, clipping, the ratio, weights, distance to behaviour and reference.

    `pg_clipfrac` counts tokens that a bound of the ratio holds back, `pg_clipfrac_lower` those at the lower
    one. `ppo_kl` is the k1 estimate of KL(anchor || current). `is/*` is of the weights for who sampled,
    before they are bounded; `is/frac_clipped` the share that a bound changed, `rs/masked_frac` the share
    that it left out. `mismatch/*` is behaviour against current, which at staleness 0 differ by the numerics
    of the two engines alone.
    """
    current_T, behaviour_T = policy.logprobs.detach(), batch.behaviour_logprobs
    importance_T = surrogate.importance
    tokens = {
        "actor/pg_loss": surrogate.losses.detach(),
        "actor/ppo_kl": surrogate.anchor_logprobs - current_T,
        "actor/pg_clipfrac": (surrogate.low | surrogate.high).to(current_T.dtype),
        "actor/pg_clipfrac_lower": surrogate.low.to(current_T.dtype),
        "ratio/mean": surrogate.ratio,
        RATIO_SQUARED: surrogate.ratio.square(),
        "is/mean": importance_T,
        IS_SQUARED: importance_T.square(),
        "mismatch/logprob_abs_diff": (current_T - behaviour_T).abs(),
        "mismatch/kl": behaviour_T - current_T,
        "mismatch/k3": k3(behaviour_T, current_T),
    }
    if surrogate.correction is not None:
        weights_T = surrogate.correction.weights
        tokens["is/frac_clipped"] = (weights_T != importance_T).to(current_T.dtype)
        tokens["rs/masked_frac"] = (weights_T == 0).to(current_T.dtype)
    if policy.entropy is not None:
        tokens["actor/entropy"] = policy.entropy.detach()
    if batch.reference_logprobs is not None:
        tokens["kl/ref_k1"] = current_T - batch.reference_logprobs
        tokens["kl/ref_k3"] = k3(current_T, batch.reference_logprobs)
    x_T, y_T = behaviour_T.exp(), current_T.exp()
    tokens |= dict(zip(MOMENTS, (x_T, y_T, x_T.square(), y_T.square(), x_T * y_T), strict=True))
    sums = {"tokens": batch.mask.sum()} | _masked_sums(tokens, batch.mask)
    return sums | _perplexity_sums(current_T, batch)


def value_sums(
    values: torch.Tensor, losses: torch.Tensor, batch: TokenBatch, *, clip: float | None
) -> dict[str, torch.Tensor]:
    """Sums over trained tokens of a value loss [T] at `values` [T], of the values before and the returns.

    `vf_clipfrac` counts tokens whose value the clip holds back.
    """
    before_T, returns_T = batch.column("values"), batch.column("returns")
    missed_T = returns_T - before_T
    tokens = {
        "critic/vf_loss": losses.detach(),
        "critic/values": before_T,
        "critic/returns": returns_T,
        "critic/vf_clipfrac": _held_back(values.detach() - before_T, missed_T, clip).to(losses.dtype),
        RETURNS_SQUARED: returns_T.square(),
        MISSED: missed_T,
        MISSED_SQUARED: missed_T.square(),
    }
    return _masked_sums(tokens, batch.mask)


def surrogate_maxima(surrogate: Surrogate, batch: TokenBatch) -> dict[str, torch.Tensor]:
    """Extremes over trained tokens; empty where there is none."""
    trained_T = batch.mask > 0
    if not trained_T.any():
        return {}
    importance = surrogate.importance[trained_T]
    return {
        "ratio/max": surrogate.ratio[trained_T].max(),
        "is/max": importance.max(),
        IS_LEAST: (-importance).max(),
    }


def summary(sums: Mapping[str, float], maxima: Mapping[str, float]) -> dict[str, float]:
    """Metrics of a step from its sums; empty where no token was trained.

    `is/ess` is 1 / mean(w^2) of the weights w normalised to mean 1: the share of tokens that still count.
    `mismatch/ppl_ratio` is the mean over samples of current over behaviour perplexity, `mismatch/pearson` the
    correlation of the tokens' probabilities under the two, 1 where neither varies. `critic/vf_explained_var`
    is 1 - Var(returns - values) / Var(returns), of the values before the update; 0 where returns are equal.
    """
    tokens = sums.get("tokens", 0.0)
    if tokens == 0:
        return {}
    metrics = {name: sums[name] / tokens for name in MEANS if name in sums}
    metrics |= {name: value for name, value in maxima.items() if name != IS_LEAST}
    if IS_LEAST in maxima:
        metrics["is/min"] = -maxima[IS_LEAST]
    for square, scope in ((RATIO_SQUARED, "ratio"), (IS_SQUARED, "is")):
        if square in sums:
            metrics[f"{scope}/std"] = _deviation(metrics[f"{scope}/mean"], sums[square] / tokens)
    if IS_SQUARED in sums:
        metrics["is/ess"] = metrics["is/mean"] ** 2 * tokens / sums[IS_SQUARED]
    if PPL_RATIO in sums:
        metrics[PPL_RATIO] = sums[PPL_RATIO] / sums[SAMPLES]
    if MOMENTS[0] in sums:
        metrics["mismatch/pearson"] = _pearson(*(sums[name] / tokens for name in MOMENTS))
    if MISSED in sums:
        spread = _deviation(metrics["critic/returns"], sums[RETURNS_SQUARED] / tokens) ** 2
        missed = _deviation(sums[MISSED] / tokens, sums[MISSED_SQUARED] / tokens) ** 2
        metrics["critic/vf_explained_var"] = 1.0 - missed / spread if spread > 0 else 0.0
    return metrics


def clipping_is_off(metrics: Mapping[str, float], *, staleness: float) -> bool:
    """Whether ratio and weights are identically 1 though samples are stale: the old ones were recomputed."""
    ones = all(metrics.get(name) == 1.0 for name in ("ratio/max", "is/max", "is/min"))
    return staleness > 0 and ones and metrics.get("actor/pg_clipfrac") == 0.0


def _held_back(moved: torch.Tensor, missed: torch.Tensor, clip: float | None) -> torch.Tensor:
    """bool [T], where a value that moved by `moved` errs less than the bound lets it."""
    if clip is None:
        return torch.zeros_like(moved, dtype=torch.bool)
    return (moved.clamp(-clip, clip) - missed).abs() > (moved - missed).abs()


def _masked_sums(tokens: Mapping[str, torch.Tensor], mask: torch.Tensor) -> dict[str, torch.Tensor]:
    stacked_NT = torch.stack(tuple(tokens.values()))
    sums_N = torch.where(mask > 0, stacked_NT, torch.zeros_like(stacked_NT)).sum(dim=1)
    return dict(zip(tokens, sums_N, strict=True))


def _perplexity_sums(current: torch.Tensor, batch: TokenBatch) -> dict[str, torch.Tensor]:
    """Over samples that have a trained token: their number, and the sum of their perplexity ratios."""
    zeros_S = current.new_zeros(batch.samples)
    trained_T = torch.where(batch.mask > 0, batch.behaviour_logprobs - current, torch.zeros_like(current))
    tokens_S = zeros_S.index_add(0, batch.sample, batch.mask)
    means_S = zeros_S.index_add(0, batch.sample, trained_T) / tokens_S.clamp(min=1.0)
    told_S = tokens_S > 0
    return {SAMPLES: told_S.sum(), PPL_RATIO: torch.where(told_S, means_S.exp(), zeros_S).sum()}


def _deviation(mean: float, square: float) -> float:
    return max(square - mean * mean, 0.0) ** 0.5


def _pearson(x: float, y: float, xx: float, yy: float, xy: float) -> float:
    spread = _deviation(x, xx) * _deviation(y, yy)
    return (xy - x * y) / spread if spread > 0 else 1.0
