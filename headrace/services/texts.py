"""The texts of a row, for functions that go by what was said rather than by ids.

`prompt` and `response` may be asked for beside columns: they are the ids of `prompt_ids` and `response_ids`,
decoded without special tokens; an answer ends before its stop token.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from headrace.transferqueue.schema import Dtype

TEXTS: Final[Mapping[str, str]] = {"prompt": "prompt_ids", "response": "response_ids"}
"""The column that each text is made of."""


def read_by(names: Sequence[str]) -> Mapping[str, Dtype | None]:
    """Columns that have to be read for columns and texts of these names."""
    return {TEXTS.get(name, name): "list<int32>" if name in TEXTS else None for name in names}


def decode(tokenizer: Any, ids: Sequence[np.ndarray]) -> list[str]:
    """The texts of token ids, each up to the stop token, which is dropped with the other special tokens."""
    stop = tokenizer.eos_token_id
    return [
        tokenizer.decode(each[:-1] if len(each) and each[-1] == stop else each, skip_special_tokens=True)
        for each in ids
    ]


def plain(value: Any) -> Any:
    """A cell as JSON has it: arrays as lists, and None for a number that is missing."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value
