"""From rows to trees: the arrays that tree credit works on, out of what each row says of its own place."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """Trees as arrays, one entry per node, parents first; see `tree`."""

    parents: np.ndarray
    groups: np.ndarray
    tokens: np.ndarray
    rewards: np.ndarray
    """At a leaf the reward of its row, NaN elsewhere."""
    places: list[np.ndarray]
    """Node of each token, int64 [length] per row."""


def forest(nodes: Sequence[np.ndarray], groups: np.ndarray, rewards: np.ndarray) -> Forest:
    """Trees of rows that are chains; `nodes` ragged int64 [length] names the node of each token.

    An id is a node of its group. Raises ValueError where two rows disagree on what lies above a node or on
    its length, and where a row does not end in a leaf of its own.
    """
    index: dict[tuple[int, int], int] = {}
    parents: list[int] = []
    tokens: list[int] = []
    places: list[np.ndarray] = []
    for row, (ids, group) in enumerate(zip(nodes, groups.tolist(), strict=True)):
        above, path = -1, []
        starts, lengths = _runs(ids)
        for node, length in zip(ids[starts].tolist(), lengths.tolist(), strict=True):
            place = index.setdefault((group, node), len(parents))
            if place == len(parents):
                parents.append(above)
                tokens.append(length)
            elif (parents[place], tokens[place]) != (above, length):
                raise ValueError(
                    f"row {row} and an earlier one disagree on node {node} of group {group}; rows that share"
                    " a segment must share all that lies above it"
                )
            above = place
            path.append(place)
        places.append(np.repeat(np.array(path, dtype=np.int64), lengths))
    leaf_rewards = np.full(len(parents), np.nan)
    leaf_rewards[_leaves(places, parents)] = rewards
    return Forest(
        parents=np.array(parents, dtype=np.int64),
        groups=np.array([group for group, _ in index], dtype=np.int64),
        tokens=np.array(tokens, dtype=np.int64),
        rewards=leaf_rewards,
        places=places,
    )


def in_order(attempts: np.ndarray, parents: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An order of rows that puts each attempt behind the one it refines, and each one's parent in it.

    All int64 [B]; ids are those of the group, parent -1 for a first attempt. Returns the order [B], and by
    place in it the place of the parent [B], -1 for none. Raises ValueError for a parent that no row of the
    group has, and for attempts that refine each other.
    """
    rows = {key: row for row, key in enumerate(zip(groups.tolist(), attempts.tolist(), strict=True))}
    above = np.full(len(attempts), -1, dtype=np.int64)
    for row, (group, parent) in enumerate(zip(groups.tolist(), parents.tolist(), strict=True)):
        if parent >= 0 and (group, parent) not in rows:
            raise ValueError(
                f"attempt {attempts[row]} refines {parent}, which group {group} does not have; keep the rows"
                " of a prompt together"
            )
        above[row] = rows[group, parent] if parent >= 0 else -1
    depths = _depths(above)
    order = np.argsort(depths, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return order, np.where(above[order] >= 0, rank[above[order]], -1)


def _depths(above: np.ndarray) -> np.ndarray:
    depths = np.zeros(len(above), dtype=np.int64)
    current = above
    while (current >= 0).any():
        depths += current >= 0
        if depths.max() >= len(above):
            raise ValueError("attempts refine each other in a circle; give each the id of the one before it")
        current = np.where(current >= 0, above[current], -1)
    return depths


def _runs(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where runs of equal ids start, and how long they are."""
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: len(ids)])
    return starts, np.diff(np.append(starts, len(ids)))


def _leaves(places: Sequence[np.ndarray], parents: Sequence[int]) -> list[int]:
    """The last node of each row."""
    ends = [int(row[-1]) if len(row) else -1 for row in places]
    inner, seen = set(parents), set[int]()
    for row, end in enumerate(ends):
        if end < 0 or end in inner or end in seen:
            raise ValueError(
                f"row {row} does not end in a leaf of its own; give the last segment of each row its own id"
            )
        seen.add(end)
    return ends
