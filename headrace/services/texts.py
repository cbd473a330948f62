"""The texts of a row, for functions that go by what was said rather than by ids.

`prompt` and `response` may be asked for beside columns: they are the ids of `prompt_ids` and `response_ids`,
decoded without special tokens; an answer ends before its stop token.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from headrace.transferqueue.schema import Dtype

if TYPE_CHECKING:
    from headrace.transferqueue import Rows

TEXTS: Final[Mapping[str, str]] = {"prompt": "prompt_ids", "response": "response_ids"}
"""The column that each text is made of."""


def read_by(names: Sequence[str]) -> Mapping[str, Dtype | None]:
    """Columns that have to be read for columns and texts of these names."""
    return {TEXTS.get(name, name): "list<int32>" if name in TEXTS else None for name in names}


def unstopped(tokenizer: Any, ids: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Token ids, each without the stop token that it ends with, if it does."""
    stop = tokenizer.eos_token_id
    return [each[:-1] if len(each) and each[-1] == stop else each for each in ids]


def decode(tokenizer: Any, ids: Sequence[np.ndarray]) -> list[str]:
    """The texts of token ids, each up to the stop token, which is dropped with the other special tokens."""
    return [tokenizer.decode(each, skip_special_tokens=True) for each in unstopped(tokenizer, ids)]


def keywords(rows: "Rows", names: Sequence[str], tokenizer: Any) -> list[dict[str, Any]]:
    """What a function of the user's is called with for each row: columns as JSON has them, and texts, which
    alone ask for the `tokenizer`."""
    values = [
        decode(tokenizer, rows[TEXTS[name]]) if name in TEXTS else [plain(value) for value in rows[name]]
        for name in names
    ]
    return [{name: column[i] for name, column in zip(names, values, strict=True)} for i in range(len(rows))]


def plain(value: Any) -> Any:
    """A cell as JSON has it: arrays as lists, and None for a number that is missing."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value
