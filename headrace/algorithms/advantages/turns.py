"""Credit of turns and steps of episodes, and its way to tokens.

Ragged in, ragged out: one array [turns] per episode. A turn's statistics are those of the same turn, or the
same state, in other episodes of the group, so what is compared answers the same situation.
"""

from collections.abc import Sequence

import numpy as np

from headrace.algorithms.advantages.group import group_zscore
from headrace.algorithms.advantages.grouping import joint_ids
from headrace.algorithms.advantages.tokens import Ragged


def turn_level(
    turn_rewards: Ragged, outcomes: np.ndarray, groups: np.ndarray, *, outcome_weight: float = 1.0
) -> list[np.ndarray]:
    """Turns before the last: z-score of the turn's reward + outcome_weight * that of the outcome.

    MT-GRPO (https://arxiv.org/abs/2505.11821): the last turn is credited with the outcome alone. Deviation:
    any number of turns, where the paper has two; a turn is normalised over the episodes of the group that
    have it before their last. `turn_rewards` ragged [turns], NaN where invalid, the last entry unread;
    `outcomes` [B], NaN where invalid; `groups` int64 [B]. Returns ragged float64 [turns], 0 in an episode
    whose outcome is invalid.
    """
    _assert_episodes(groups, turn_rewards=turn_rewards, outcomes=outcomes)
    turns = [np.arange(len(rewards)) for rewards in turn_rewards]
    valid = ~np.isnan(outcomes)
    early = [
        np.where((turn < len(turn) - 1) & ok, rewards, np.nan)
        for rewards, turn, ok in zip(turn_rewards, turns, valid, strict=True)
    ]
    episode = np.repeat(np.arange(len(turns)), [len(turn) for turn in turns])
    flat_turns = _joined(turns).astype(np.int64)
    own = group_zscore(_joined(early), joint_ids(groups[episode], flat_turns))
    outcome = group_zscore(outcomes, groups)[episode]
    last = flat_turns == _joined([np.full(len(turn), len(turn) - 1) for turn in turns])
    return _split(own + np.where(last, 1.0, outcome_weight) * outcome, turns)


def step_level(
    step_rewards: Ragged,
    states: Ragged,
    groups: np.ndarray,
    *,
    gamma: float = 0.95,
    step_weight: float = 1.0,
) -> list[np.ndarray]:
    """z-score of the episode's return + step_weight * that of the step's, among steps from the same state.

    GiGPO (https://arxiv.org/abs/2505.10978), equations 3 to 8: the episode's return is the plain sum of its
    rewards, the step's the discounted sum from it on; a state that only one step of the group saw gives 0.
    `step_rewards` ragged [steps], NaN anywhere in an invalid episode; `states` ragged int64 [steps], an id of
    the state acted in; `groups` int64 [B]. Returns ragged float64 [steps].
    """
    _assert_episodes(groups, step_rewards=step_rewards, states=states)
    totals = np.array([rewards.sum() for rewards in step_rewards], dtype=np.float64)
    returns = [
        np.where(np.isnan(total), np.nan, _discounted(rewards, gamma))
        for rewards, total in zip(step_rewards, totals, strict=True)
    ]
    episode = np.repeat(np.arange(len(returns)), [len(values) for values in returns])
    anchors = joint_ids(groups[episode], _joined(states).astype(np.int64))
    by_step = group_zscore(_joined(returns), anchors)
    return _split(group_zscore(totals, groups)[episode] + step_weight * by_step, returns)


def to_tokens(turn_credits: Ragged, turns: Ragged) -> list[np.ndarray]:
    """Credit of each token: that of its turn, 0 where `turns` (ragged int64 [length]) is -1."""
    return [
        np.where(turn >= 0, np.append(credits, 0.0)[turn], 0.0)
        for credits, turn in zip(turn_credits, turns, strict=True)
    ]


def _discounted(rewards: np.ndarray, gamma: float) -> np.ndarray:
    returns = np.asarray(rewards, dtype=np.float64).copy()
    for step in range(len(returns) - 2, -1, -1):
        returns[step] += gamma * returns[step + 1]
    return returns


def _joined(ragged: Ragged) -> np.ndarray:
    return (
        np.concatenate([np.asarray(row, dtype=np.float64) for row in ragged]) if len(ragged) else np.zeros(0)
    )


def _split(values: np.ndarray, like: Ragged) -> list[np.ndarray]:
    return np.split(values, np.cumsum([len(row) for row in like])[:-1]) if len(like) else []


def _assert_episodes(groups: np.ndarray, **columns: Sequence[object] | np.ndarray) -> None:
    lengths = {name: len(column) for name, column in columns.items()} | {"groups": len(groups)}
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"every column needs one entry per episode, got {got}")
