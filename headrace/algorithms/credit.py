"""From scores to advantages by the name that a policy-gradient algorithm's options give.

A divergence that counts in the reward is taken off before any statistic: over the answer where credit is by
sample, token by token where it is by token. Tokens that are not trained carry none.
"""

from dataclasses import replace

import numpy as np
import torch

from headrace.algorithms.advantages import (
    Estimates,
    batch_zscore,
    gae,
    group_mean,
    group_mean_batch_std,
    group_zscore,
    leave_one_out,
    reinforce_pp,
    reinforce_pp_baseline,
    terminal_rewards,
    whiten,
)
from headrace.algorithms.advantages.base import Advantage
from headrace.algorithms.base import Advantages, GroupScores
from headrace.algorithms.by_path import find
from headrace.algorithms.kl import ESTIMATORS
from headrace.algorithms.options.credit import PythonCredit
from headrace.algorithms.options.policy_gradient import PolicyGradient
from headrace.algorithms.updates.annealed import at

BY_GROUP = {
    "group_zscore": group_zscore,
    "group_mean": group_mean,
    "leave_one_out": leave_one_out,
    "group_mean_batch_std": group_mean_batch_std,
}


def by_path(options: PolicyGradient) -> Advantage | None:
    """The class that the options name by path, made; None where they name a function of ours.

    Raises ValueError where it is not as it was declared, ImportError where its module does not import.
    """
    written = options.advantage
    if not isinstance(written, PythonCredit):
        return None
    made: Advantage = find(written.path, key="algorithm.advantage.path", what="class")(**written.options)
    if set(made.needs()) != set(written.reads) or made.needs_full_batch != written.over_batch:
        raise ValueError(
            f"algorithm.advantage says reads {list(written.reads)} and over_batch {written.over_batch}, but "
            f"{written.path} needs {list(made.needs())} and has needs_full_batch {made.needs_full_batch}; "
            "write the same in both"
        )
    return made


def credit(options: PolicyGradient, scores: GroupScores, own: Advantage | None = None) -> Advantages:
    """float64, one per sample, or for `gae` and `reinforce_pp` one per token; `own`: what `by_path` made.

    Raises ValueError where a column that the credit needs is missing.
    """
    distances = divergences(options, scores)
    if options.advantage == "gae":
        return _by_value(options, scores, distances)
    if options.advantage == "reinforce_pp":
        masks = scores.column("loss_mask")
        return reinforce_pp(
            scores.rewards, masks, distances, kl_coef=at(options.kl_coef, 0), gamma=options.gamma
        )
    rewards = scores.rewards
    if distances is not None:
        rewards = rewards - at(options.kl_coef, 0) * np.array([distance.sum() for distance in distances])
    if own is not None:
        return own(replace(scores, rewards=rewards))
    if options.advantage == "batch_zscore":
        return batch_zscore(rewards)
    if options.advantage == "reinforce_pp_baseline":
        trained = np.array([np.count_nonzero(mask) for mask in scores.column("loss_mask")])
        return reinforce_pp_baseline(rewards, scores.groups, trained)
    return BY_GROUP[str(options.advantage)](rewards, scores.groups)


def divergences(options: PolicyGradient, scores: GroupScores) -> list[np.ndarray] | None:
    """Of the behaviour policy from the reference, [B] of [length]; None: the reward has none."""
    if at(options.kl_coef, 0) == 0 or options.kl_in != "reward":
        return None
    estimate = ESTIMATORS[options.kl_estimator]
    columns = zip(
        scores.column("logprobs"),
        scores.column("reference_logprobs"),
        scores.column("loss_mask"),
        strict=True,
    )
    return [
        np.where(mask > 0, estimate(_float64(behaviour), _float64(reference)).numpy(), 0.0)
        for behaviour, reference, mask in columns
    ]


def returns(options: PolicyGradient, scores: GroupScores) -> list[np.ndarray]:
    """What the values of `gae` are fitted to, [B] of [length]; of an invalid sample its values: no pull."""
    return _estimates(options, scores, divergences(options, scores)).returns


def _by_value(
    options: PolicyGradient, scores: GroupScores, distances: list[np.ndarray] | None
) -> list[np.ndarray]:
    advantages = _estimates(options, scores, distances).advantages
    if not options.gae_whiten:
        return advantages
    invalid = np.isnan(scores.rewards)
    return whiten(
        [np.where(bad, np.nan, a) for bad, a in zip(invalid, advantages, strict=True)],
        scores.column("loss_mask"),
    )


def _estimates(options: PolicyGradient, scores: GroupScores, distances: list[np.ndarray] | None) -> Estimates:
    masks = scores.column("loss_mask")
    token_rewards = terminal_rewards(scores.rewards, masks)
    if distances is not None:
        token_rewards = [
            reward - at(options.kl_coef, 0) * distance
            for reward, distance in zip(token_rewards, distances, strict=True)
        ]
    return gae(token_rewards, scores.column("values"), masks, gamma=options.gamma, lam=options.gae_lambda)


def _float64(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.float64))
