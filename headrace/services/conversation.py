"""A conversation goes on by ids: what was asked and sampled stays, and only what is new is tokenised.

    prompt ids ─ answer ids ─ encode(what the template writes after them)        extended
    encode(all of it)                                                            forked

A template may render an answer of earlier turns otherwise than it was made: it drops the thinking, or trims
spaces. Then no text can be appended, and the conversation forks: the new prompt is tokenised anew, and the
answer stays, with its own prompt, the sample that it was. Whoever asks is told, and counts it.

Invariant: ids that a policy sampled are never replaced by others of the same text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.services.prompts import PromptError, encode

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """The prompt of a further turn, the assistant's turn opened."""

    ids: np.ndarray = field(repr=False)
    """int32 [T]."""
    kept: int
    """Ids at its beginning that are those of the prompt and answer before, or 0 where it forked."""

    @property
    def is_fork(self) -> bool:
        """Whether the template renders what was said otherwise than it was said."""
        return self.kept == 0


def extended(
    prompt_ids: np.ndarray, answer_ids: np.ndarray, *, said: Messages, asked: Messages, tokenizer: Any
) -> Extension:
    """The prompt of the turn after an answer.

    `prompt_ids` and `answer_ids`: int [T], the answer without the stop token that the template writes itself;
    `said`: the messages that the prompt was rendered from, `asked`: those that follow the answer, such as a
    tool's result. Raises PromptError where `said` is not what the prompt says.
    """
    if not asked:
        raise PromptError("no message follows the answer; a turn begins with at least one, such as a user's")
    before = _rendered(said, tokenizer)
    _check_said(prompt_ids, said, tokenizer)
    answer = {"role": "assistant", "content": _decoded(answer_ids, tokenizer)}
    after = _rendered([*said, answer, *asked], tokenizer)
    opened = before + answer["content"]
    if not after.startswith(opened):
        return Extension(ids=encode([*map(dict, said), answer, *map(dict, asked)], tokenizer), kept=0)
    kept = np.concatenate([prompt_ids, answer_ids]).astype(np.int32)
    return Extension(ids=np.append(kept, _encoded(after[len(opened) :], tokenizer)), kept=len(kept))


def _rendered(messages: Messages, tokenizer: Any) -> str:
    if tokenizer.chat_template is None:
        raise PromptError(
            "a conversation goes on through a chat template, and the model's tokenizer has none; use an "
            "instruction-tuned model, or put texts and tokens in a row"
        )
    return tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=False)


def _check_said(prompt_ids: np.ndarray, said: Messages, tokenizer: Any) -> None:
    """By their texts: the ids may well be others, where an earlier turn was extended."""
    asked, told = _decoded(prompt_ids, tokenizer), _decoded(encode([*map(dict, said)], tokenizer), tokenizer)
    if asked != told:
        at = next((i for i, (a, b) in enumerate(zip(asked, told, strict=False)) if a != b), 0)
        raise PromptError(
            f"the messages are not those of the prompt: it has {asked[at : at + 40]!r} where they give "
            f"{told[at : at + 40]!r}; give all messages before the answer, as they were asked"
        )


def _decoded(ids: np.ndarray, tokenizer: Any) -> str:
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def _encoded(text: str, tokenizer: Any) -> np.ndarray:
    """int32 [T]. Raises PromptError where the ids say another text than `text` when they follow others."""
    ids = np.asarray(tokenizer.encode(text, add_special_tokens=False), dtype=np.int32)
    if (made := _decoded(ids, tokenizer)) != text:
        raise PromptError(
            f"the tokenizer makes {made[:40]!r} of {text[:40]!r}, which follows an answer; it cannot encode "
            "a text from its middle: put the whole conversation as messages"
        )
    return ids
