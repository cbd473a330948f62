"""Prompts, and how they become token ids: text by the tokenizer, chat messages through its template."""

from typing import Any

import numpy as np

from headrace.services.errors import ServiceError

PromptText = str | list[dict[str, Any]]
"""Text, or chat messages (`{"role": ..., "content": ...}`) for the model's chat template."""


class PromptError(ServiceError):
    """A prompt that no model can be asked."""


def encode(prompt: PromptText, tokenizer: Any) -> np.ndarray:
    """Token ids, int32 [T]; chat messages end with the assistant's turn opened. Raises PromptError."""
    if isinstance(prompt, str):
        ids = tokenizer.encode(prompt)
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
