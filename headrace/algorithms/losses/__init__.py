"""Losses per token or per sample; pure. Behaviour, proximal and current log-probabilities stay separate."""

from headrace.algorithms.losses.clip import clip_surrogate, ppo_clip
from headrace.algorithms.losses.distill import forward_kl, reverse_kl
from headrace.algorithms.losses.off_policy import (
    masked_ratio,
    policy_gradient,
    second_moment_mask,
    topr_weights,
)
from headrace.algorithms.losses.ratio import MAX_LOG_RATIO, log_ratio, ratio
from headrace.algorithms.losses.sequence import gspo_ratio, gspo_token_ratio, product_ratio
from headrace.algorithms.losses.supervised import likelihood, pacs, rover, rover_targets
from headrace.algorithms.losses.value import value_clip
from headrace.algorithms.losses.weights import Correction, behaviour_weights, correct

__all__ = [
    "MAX_LOG_RATIO",
    "Correction",
    "behaviour_weights",
    "clip_surrogate",
    "correct",
    "forward_kl",
    "gspo_ratio",
    "gspo_token_ratio",
    "likelihood",
    "log_ratio",
    "masked_ratio",
    "pacs",
    "policy_gradient",
    "ppo_clip",
    "product_ratio",
    "ratio",
    "reverse_kl",
    "rover",
    "rover_targets",
    "second_moment_mask",
    "topr_weights",
    "value_clip",
]
