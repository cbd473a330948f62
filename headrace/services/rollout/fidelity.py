"""Which answers their own text would give back: a policy may write a string in other tokens than a tokenizer.

The ids are what is trained on, either way; this tells where whoever goes by the text would be wrong.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

AT_ONCE = 2048
"""Tokens that are checked without leaving the event loop, in a few milliseconds at most."""


class Fidelity:
    """Decodes and encodes answers with the tokenizer of their model; None: they have no text, all pass."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase | None") -> None:
        self._tokenizer = tokenizer
        if tokenizer is not None:
            # The first call takes off a truncation it was saved with, which no other thread may see.
            tokenizer("")

    async def retokenise(self, answers: Sequence[np.ndarray]) -> np.ndarray:
        """bool [B]: whether the text of each answer (int [T]), special tokens included, encodes to it."""
        if self._tokenizer is None:
            return np.ones(len(answers), dtype=bool)
        if sum(map(len, answers)) <= AT_ONCE:
            return retokenise(self._tokenizer, answers)
        return await asyncio.to_thread(retokenise, self._tokenizer, answers)


def retokenise(tokenizer: "PreTrainedTokenizerBase", answers: Sequence[np.ndarray]) -> np.ndarray:
    """bool [B]: whether `tokenizer` decodes and encodes each answer (int [T]) to the same ids.

    An answer that was cut off within a character, or has an id that the tokenizer lacks, does not.
    """
    made = [ids.tolist() for ids in answers]
    texts = tokenizer.batch_decode(made, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    again = tokenizer(texts, add_special_tokens=False, return_attention_mask=False, verbose=False)
    return np.array([ids == other for ids, other in zip(made, again["input_ids"], strict=True)], dtype=bool)
