"""Credit of tokens: returns, generalised advantage estimates and their normalisation over a batch.

Ragged in, ragged out: one array [length] per sample. Only trained tokens (mask > 0) act: values and credit
pass over the others, which get 0, and a reward that falls on one counts for the trained token before it.
A sample with an invalid reward (NaN) gets 0 everywhere and enters no statistic.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.algorithms.advantages.group import group_mean
from headrace.algorithms.advantages.grouping import is_constant

Ragged = Sequence[np.ndarray]
"""One array per sample, each [length]."""

VARIANCE_FLOOR = 1e-8
"""Added to the variance under the root when a batch is whitened, as published implementations do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Both ragged float64, one array [length] per sample; 0 on tokens that are not trained."""

    advantages: list[np.ndarray]
    returns: list[np.ndarray]
    """What a critic is fitted to: advantage + value; of an invalid sample the value itself, so no pull."""


def terminal_rewards(rewards: np.ndarray, masks: Ragged) -> list[np.ndarray]:
    """The reward of each sample on its last trained token, 0 elsewhere.

    `rewards` [B], NaN where invalid; `masks` ragged. Returns ragged float64. A sample without a trained token
    has nowhere to put it.
    """
    tokens = [np.zeros(len(mask), dtype=np.float64) for mask in masks]
    for token_rewards, mask, reward in zip(tokens, masks, rewards, strict=True):
        trained = np.flatnonzero(mask)
        if len(trained):
            token_rewards[trained[-1]] = reward
    return tokens


def gae(
    token_rewards: Ragged,
    values: Ragged,
    masks: Ragged,
    *,
    gamma: float = 1.0,
    lam: float = 0.95,
    bootstrap: np.ndarray | None = None,
) -> Estimates:
    """Generalised advantage estimates: A_t = sum over l of (gamma * lam)^l * delta_(t+l).

    https://arxiv.org/abs/1506.02438, equation 16, with delta_t = r_t + gamma * V_(t+1) - V_t over trained
    tokens. `token_rewards`, `values` (V before the token) and `masks` are ragged, of the same lengths.
    `bootstrap` [B]: V after the last token, for samples that were cut off; None: all of them ended (0).
    Raises ValueError where lengths differ or gamma or lam leave [0, 1].
    """
    _assert_fraction("gamma", gamma)
    _assert_fraction("lam", lam)
    _assert_ragged(token_rewards=token_rewards, values=values, masks=masks)
    after = np.zeros(len(masks)) if bootstrap is None else np.asarray(bootstrap, dtype=np.float64)
    invalid = [bool(np.isnan(reward).any()) for reward in token_rewards]
    rewards_BT = np.nan_to_num(_backwards(_on_trained(token_rewards, masks)), nan=0.0)
    values_BT = _backwards([value[mask > 0] for value, mask in zip(values, masks, strict=True)])
    next_BT = np.concatenate([after[:, None], values_BT[:, :-1]], axis=1) if values_BT.size else values_BT
    deltas_BT = rewards_BT + gamma * next_BT - values_BT
    advantages_BT = _discounted_sums(deltas_BT, gamma * lam)
    advantages_BT[invalid] = 0.0
    advantages = _forwards(advantages_BT, masks)
    returns = [
        np.where(mask > 0, advantage + value, 0.0)
        for advantage, value, mask in zip(advantages, values, masks, strict=True)
    ]
    return Estimates(advantages=advantages, returns=returns)


def reinforce_pp(
    rewards: np.ndarray,
    masks: Ragged,
    divergences: Ragged | None = None,
    *,
    kl_coef: float = 0.0,
    gamma: float = 1.0,
) -> list[np.ndarray]:
    """REINFORCE++: returns of the reward less kl_coef * divergence per token, whitened over the batch.

    https://arxiv.org/abs/2501.03262, section 3. `rewards` [B], NaN where invalid; `masks` ragged;
    `divergences` ragged, estimates of log(policy / reference) of each token; None: no reference. Returns
    ragged float64. Deviation: tokens that are not trained carry no divergence.
    """
    _assert_fraction("gamma", gamma)
    shaped = terminal_rewards(rewards, masks)
    if divergences is not None:
        _assert_ragged(divergences=divergences, masks=masks)
        shaped = [
            reward - kl_coef * np.where(mask > 0, kl, 0.0)
            for reward, kl, mask in zip(shaped, divergences, masks, strict=True)
        ]
    returns_BT = _discounted_sums(_backwards(_on_trained(shaped, masks)), gamma)
    return whiten(_forwards(returns_BT, masks), masks)


def reinforce_pp_baseline(rewards: np.ndarray, groups: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """REINFORCE++ with the mean of the group as baseline, whitened over the tokens of the batch.

    https://arxiv.org/abs/2501.03262, section 3.3; the divergence belongs to the loss there. `rewards` [B],
    NaN where invalid; `groups` int64 [B]; `lengths` [B], trained tokens, which weigh a sample in the batch's
    statistics. Returns float64 [B], one value for all tokens of a sample. The batch's mean is subtracted
    too, so a group of equal rewards is not exactly 0 here.
    """
    centred = group_mean(rewards, groups)
    valid = ~np.isnan(rewards)
    whitened = _whitened(centred[valid], lengths[valid].astype(np.float64))
    credits = np.zeros(len(rewards), dtype=np.float64)
    credits[valid] = whitened
    return credits


def whiten(values: Ragged, masks: Ragged) -> list[np.ndarray]:
    """(x - mean) / sqrt(variance + 1e-8) over the trained tokens of the batch, unbiased variance.

    `values` ragged, NaN anywhere in an invalid sample. Returns ragged float64, 0 where untrained or invalid.
    """
    trained = [mask > 0 for mask in masks]
    valid = [not np.isnan(value[mask]).any() for value, mask in zip(values, trained, strict=True)]
    chosen = [value[mask] for value, mask, ok in zip(values, trained, valid, strict=True) if ok]
    tokens = np.concatenate(chosen) if chosen else np.zeros(0)
    whitened = iter(np.split(_whitened(tokens), np.cumsum([len(part) for part in chosen])[:-1]))
    credits = [np.zeros(len(mask), dtype=np.float64) for mask in masks]
    for credit, mask, ok in zip(credits, trained, valid, strict=True):
        if ok:
            credit[mask] = next(whitened)
    return credits


def _whitened(values: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
    """`counts` [n]: how many tokens each value stands for; None: one."""
    counts = np.ones(len(values)) if counts is None else counts
    number = counts.sum()
    if number < 2 or is_constant(values):
        return np.zeros(len(values), dtype=np.float64)
    mean = (counts * values).sum() / number
    variance = (counts * (values - mean) ** 2).sum() / (number - 1)
    return (values - mean) / np.sqrt(variance + VARIANCE_FLOOR)


def _on_trained(tokens: Ragged, masks: Ragged) -> list[np.ndarray]:
    """Sums per trained token: its own value and those of the untrained tokens that follow it."""
    sums = []
    for values, mask in zip(tokens, masks, strict=True):
        trained = np.asarray(mask) > 0
        owner = np.cumsum(trained) - 1
        owned = owner >= 0
        sums.append(np.bincount(owner[owned], weights=values[owned], minlength=int(trained.sum())))
    return sums


def _backwards(ragged: Ragged) -> np.ndarray:
    """[B, T], each row from its last entry to its first, 0 beyond."""
    width = max((len(row) for row in ragged), default=0)
    grid = np.zeros((len(ragged), width), dtype=np.float64)
    for row, values in zip(grid, ragged, strict=True):
        row[: len(values)] = values[::-1]
    return grid


def _forwards(grid_BT: np.ndarray, masks: Ragged) -> list[np.ndarray]:
    """Rows of `_backwards` on the trained tokens of each sample, in their order again."""
    ragged = [np.zeros(len(mask), dtype=np.float64) for mask in masks]
    for values, mask, row in zip(ragged, masks, grid_BT, strict=True):
        trained = np.asarray(mask) > 0
        values[trained] = row[: int(trained.sum())][::-1]
    return ragged


def _discounted_sums(grid_BT: np.ndarray, factor: float) -> np.ndarray:
    if factor == 1.0:
        return np.cumsum(grid_BT, axis=1)
    sums_BT = grid_BT.copy()
    for column in range(1, sums_BT.shape[1]):
        sums_BT[:, column] += factor * sums_BT[:, column - 1]
    return sums_BT


def _assert_fraction(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} is {value}; it must lie between 0 and 1")


def _assert_ragged(**columns: Ragged) -> None:
    lengths = {name: [len(values) for values in column] for name, column in columns.items()}
    if len({tuple(each) for each in lengths.values()}) > 1:
        got = ", ".join(f"{name} {each}" for name, each in lengths.items())
        raise ValueError(f"token columns must have one entry per token of each sample, got lengths {got}")
