"""Prompts, and how they become token ids: text by the tokenizer, chat messages through its template, and ids
as they are."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.services.errors import ServiceError

PromptText = str | list[dict[str, Any]] | list[int]
"""Text, chat messages (`{"role": ..., "content": ...}`) for the model's chat template, or token ids."""


class PromptError(ServiceError):
    """A prompt that no model can be asked."""


def encode(prompt: PromptText, tokenizer: Any) -> np.ndarray:
    """Token ids, int32 [T]; chat messages end with the assistant's turn opened. Raises PromptError."""
    if isinstance(prompt, str):
        ids = tokenizer.encode(prompt)
    elif is_ids(prompt):
        ids = _known(prompt, len(tokenizer))
    elif tokenizer.chat_template is None:
        raise PromptError(
            "the prompts are chat messages, but the model's tokenizer has no chat template;"
            " use an instruction-tuned model, or prompts that are text"
        )
    else:
        ids = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=False)
    if len(ids) == 0:
        raise PromptError(f"the tokenizer makes no token of the prompt {prompt!r}")
    return np.asarray(ids, dtype=np.int32)


def is_chat(prompt: Any) -> bool:
    """Whether it is chat messages."""
    return (
        isinstance(prompt, list)
        and bool(prompt)
        and all(isinstance(message, dict) and {"role", "content"} <= message.keys() for message in prompt)
    )


def is_ids(prompt: Any) -> bool:
    """Whether it is token ids."""
    return (
        isinstance(prompt, list)
        and bool(prompt)
        and all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in prompt)
    )


def _known(ids: Sequence[Any], vocabulary: int) -> Sequence[int]:
    odd = [each for each in ids if each >= vocabulary]
    if odd:
        raise PromptError(
            f"a prompt has the token id {odd[0]}, and the model's tokenizer has {vocabulary}; write ids of "
            "this model's tokens, or the prompt as text"
        )
    return ids
