"""From a prompt to token ids: text as the tokenizer writes it, chat messages through the model's template."""

from typing import Any

import numpy as np

from headrace.services.source.datasets.base import DatasetError, Prompt


def encode(prompt: Prompt, tokenizer: Any) -> np.ndarray:
    """Token ids, int32 [T]; chat messages end with the assistant's turn opened. Raises DatasetError."""
    if isinstance(prompt, str):
        ids = tokenizer.encode(prompt)
    elif tokenizer.chat_template is None:
        raise DatasetError(
            "the data set gives chat messages, but the model's tokenizer has no chat template;"
            " use an instruction-tuned model, or a data set whose prompts are text"
        )
    else:
        ids = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=False)
    if len(ids) == 0:
        raise DatasetError(f"the tokenizer makes no token of the prompt {prompt!r}")
    return np.asarray(ids, dtype=np.int32)
