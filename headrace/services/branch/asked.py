"""What a branch's function takes, a row of the parent table, and what it gives, prompts of the new one.

Tokens pass from one policy's answer into another's prompt as ids, never through their text, and keep who made
them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.services.prompts import PromptError, PromptText, encode, is_ids

NOBODY = -1
"""Policy and version of a token that no policy made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of a row with who made each: arrays [T] of equal length."""

    text: str
    """Decoded, without special tokens."""
    ids: np.ndarray = field(repr=False)
    """int32."""
    policies: np.ndarray = field(repr=False)
    """int8: number of the policy among those of the graph, or NOBODY."""
    versions: np.ndarray = field(repr=False)
    """int32, or NOBODY."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A row of the parent table."""

    uid: int
    group: int
    prompt: Tokens
    response: Tokens
    """Without its stop token."""
    example: Mapping[str, Any]
    """The data set's entry."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """The columns that the node names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt of the new table.

    `prompt` is text, chat messages, or parts in a row, each a text or tokens of the parent, which go over as
    they are.
    """

    prompt: PromptText | Sequence[str | Tokens]
    example: Mapping[str, Any]
    """What scores answers to it: plain JSON."""


def prompts_of(made: Any) -> list[Prompt]:
    """What a function returned, as a list; raises PromptError where it is something else."""
    if made is None:
        return []
    several = [made] if isinstance(made, Prompt) else made
    if isinstance(several, Iterable) and not isinstance(several, str | Mapping):
        listed = list(several)
        if all(isinstance(each, Prompt) for each in listed):
            return listed
    raise PromptError(f"the function returned {made!r}; it must return a Prompt, several, or None")


def tokens_of(prompt: Prompt, tokenizer: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids int32 [T], policies int8 [T] and versions int32 [T] of a prompt. Raises PromptError."""
    parts = prompt.prompt
    if isinstance(parts, str) or is_ids(parts) or (parts and all(isinstance(part, dict) for part in parts)):
        return _unmade(encode(parts, tokenizer))  # type: ignore[arg-type]
    encoded = [_part(part, tokenizer) for part in parts]
    if not sum(len(ids) for ids, _, _ in encoded):
        raise PromptError(f"the prompt {prompt.prompt!r} has no tokens")
    ids, policies, versions = (np.concatenate(column) for column in zip(*encoded, strict=True))
    return ids, policies, versions


def _part(part: Any, tokenizer: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if isinstance(part, Tokens):
        return part.ids, part.policies, part.versions
    if isinstance(part, str):
        return _unmade(np.asarray(tokenizer.encode(part, add_special_tokens=False), dtype=np.int32))
    raise PromptError(f"a prompt has the part {part!r}; parts are texts and the parent's tokens")


def _unmade(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return ids, np.full(len(ids), NOBODY, dtype=np.int8), np.full(len(ids), NOBODY, dtype=np.int32)
