"""What a branch's function takes, a row of the parent table, and what it gives, prompts of the new one.

Tokens pass from one policy's answer into another's prompt as ids, never through their text, and keep who made
them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.services.conversation import Messages, extended
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
class Continued:
    """A row's conversation with further messages: the next turn, under the chat template.

    The row's own ids go over as they are. Where the template renders its answer otherwise than it was made,
    dropping the thinking for instance, the conversation forks: it is tokenised anew, and nobody made the
    tokens of this prompt. The row keeps its own.
    """

    row: Parent
    said: Messages
    """All messages before the row's answer."""
    asked: Messages
    """Those after it, such as a tool's result or a user's word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt of the new table.

    `prompt` is text, chat messages, token ids, the row's conversation with a further turn, or parts in a row,
    each a text or tokens of the parent, which go over as they are.
    """

    prompt: PromptText | Continued | Sequence[str | Tokens]
    example: Mapping[str, Any]
    """What scores answers to it: plain JSON."""

    @property
    def has_tokens(self) -> bool:
        """Whether ids of the parent go over into it."""
        if isinstance(self.prompt, Continued):
            return True
        return any(isinstance(part, Tokens) for part in self.prompt)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The tokens of a prompt: arrays [T] of equal length."""

    ids: np.ndarray = field(repr=False)
    """int32."""
    policies: np.ndarray = field(repr=False)
    """int8."""
    versions: np.ndarray = field(repr=False)
    """int32."""
    forked: bool | None = None
    """Whether a conversation was tokenised anew; None: none went on."""


def tokens_of(prompt: Prompt, tokenizer: Any) -> Asked:
    """Raises PromptError."""
    if isinstance(prompt.prompt, Continued):
        return _continued(prompt.prompt, tokenizer)
    ids, policies, versions = _tokens_of(prompt, tokenizer)
    return Asked(ids=ids, policies=policies, versions=versions)


def _continued(turn: Continued, tokenizer: Any) -> Asked:
    prompt, response = turn.row.prompt, turn.row.response
    made = extended(prompt.ids, response.ids, said=turn.said, asked=turn.asked, tokenizer=tokenizer)
    _, policies, versions = _unmade(made.ids)
    if not made.is_fork:
        policies[: made.kept] = np.concatenate([prompt.policies, response.policies])
        versions[: made.kept] = np.concatenate([prompt.versions, response.versions])
    return Asked(ids=made.ids, policies=policies, versions=versions, forked=made.is_fork)


def _tokens_of(prompt: Prompt, tokenizer: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    parts = prompt.prompt
    assert not isinstance(parts, Continued)
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
