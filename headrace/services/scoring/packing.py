"""Groups of samples laid out as flat rows of tokens: a prompt once, then the answers of its group.

Every answer token is scored by the position before it, so the last token of an answer is never fed to the
model. Which samples share a pack depends on lengths alone: the same batch is always packed the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np


class Placed(Protocol):
    """Samples of a batch one after another, token by token."""

    @property
    def lengths(self) -> np.ndarray:
        """[S], answer tokens of each sample."""
        ...

    @property
    def index(self) -> np.ndarray:
        """[S], where each sample stands in the batch."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One prompt and the answers that continue it; lengths in tokens fed to the model."""

    start: int
    """Position of the prompt's first token in the pack."""
    prompt: int
    answers: tuple[int, ...]

    @property
    def tokens(self) -> int:
        return self.prompt + sum(self.answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """A micro-batch: N tokens fed to the model, T answer tokens to be scored; arrays are int64."""

    input_ids: np.ndarray = field(repr=False)
    """[N]."""
    position_ids: np.ndarray = field(repr=False)
    """[N]; every answer goes on from the end of its prompt."""
    scored_from: np.ndarray = field(repr=False)
    """[T], for each answer token the place among the N whose output predicts it."""
    targets: np.ndarray = field(repr=False)
    """[T], the answer tokens, sample after sample."""
    lengths: np.ndarray
    """[S], answer tokens of each sample; they sum to T."""
    index: np.ndarray
    """[S], where each sample stands in the batch that was packed."""
    trees: tuple[Tree, ...] = field(repr=False)


def pack(
    prompt_ids: Sequence[np.ndarray],
    response_ids: Sequence[np.ndarray],
    groups: np.ndarray,
    *,
    max_tokens: int,
) -> list[Pack]:
    """Packs of at most `max_tokens` tokens, longest groups first.

    `prompt_ids` and `response_ids` are [B] of int [length]; `groups` int64 [B]. A group beyond `max_tokens`
    is divided, with its prompt in each part; a sample beyond it stands alone. Empty answers are left out.
    Raises ValueError where the prompts of a group differ or are empty.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens is {max_tokens}; a pack holds at least one token")
    parts: list[np.ndarray] = []
    for members in _members(response_ids, groups):
        _check_prompts(prompt_ids, members, groups)
        parts.extend(_divide(members, len(prompt_ids[members[0]]), response_ids, max_tokens))
    sizes = [_fed(part, len(prompt_ids[part[0]]), response_ids) for part in parts]
    packs: list[list[np.ndarray]] = []
    filled = max_tokens
    for number in np.argsort([-size for size in sizes], kind="stable"):
        if filled + sizes[number] > max_tokens or not packs:
            packs.append([])
            filled = 0
        packs[-1].append(parts[number])
        filled += sizes[number]
    return [_lay_out(chosen, prompt_ids, response_ids) for chosen in packs]


def _members(response_ids: Sequence[np.ndarray], groups: np.ndarray) -> list[np.ndarray]:
    lengths = np.fromiter(map(len, response_ids), dtype=np.int64, count=len(response_ids))
    full = np.flatnonzero(lengths > 0)
    order = full[np.argsort(groups[full], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1) if len(order) else []


def _check_prompts(prompt_ids: Sequence[np.ndarray], members: np.ndarray, groups: np.ndarray) -> None:
    first = prompt_ids[members[0]]
    group = groups[members[0]]
    if len(first) == 0:
        raise ValueError(f"the prompt of group {group} is empty; nothing predicts its first answer token")
    for member in members[1:]:
        if not np.array_equal(first, prompt_ids[member]):
            raise ValueError(
                f"group {group} has different prompts (samples {members[0]} and {member} of the batch); "
                "samples of one group must answer the same prompt ids: give the others a group of their own"
            )


def _fed(part: np.ndarray, prompt: int, response_ids: Sequence[np.ndarray]) -> int:
    return prompt + sum(len(response_ids[member]) - 1 for member in part)


def _divide(
    members: np.ndarray, prompt: int, response_ids: Sequence[np.ndarray], max_tokens: int
) -> list[np.ndarray]:
    if _fed(members, prompt, response_ids) <= max_tokens:
        return [members]
    parts: list[list[int]] = []
    filled = max_tokens
    for member in members:
        tokens = len(response_ids[member]) - 1
        if filled + tokens > max_tokens or not parts:
            parts.append([])
            filled = prompt
        parts[-1].append(member)
        filled += tokens
    return [np.array(part) for part in parts]


def _lay_out(
    parts: list[np.ndarray], prompt_ids: Sequence[np.ndarray], response_ids: Sequence[np.ndarray]
) -> Pack:
    inputs: list[np.ndarray] = []
    positions: list[np.ndarray] = []
    sources: list[np.ndarray] = []
    trees: list[Tree] = []
    place = 0
    for part in parts:
        prompt = prompt_ids[part[0]]
        tree = Tree(
            start=place, prompt=len(prompt), answers=tuple(len(response_ids[member]) - 1 for member in part)
        )
        trees.append(tree)
        inputs.append(prompt)
        positions.append(np.arange(tree.prompt))
        place += tree.prompt
        last = np.array([place - 1])
        for member, fed in zip(part, tree.answers, strict=True):
            inputs.append(response_ids[member][:-1])
            positions.append(np.arange(tree.prompt, tree.prompt + fed))
            sources += [last, np.arange(place, place + fed)]
            place += fed
    index = np.concatenate(parts)
    targets = [response_ids[member] for member in index]
    return Pack(
        input_ids=np.concatenate(inputs).astype(np.int64),
        position_ids=np.concatenate(positions),
        scored_from=np.concatenate(sources),
        targets=np.concatenate(targets).astype(np.int64),
        lengths=np.array([len(target) for target in targets], dtype=np.int64),
        index=index,
        trees=tuple(trees),
    )
