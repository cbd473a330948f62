"""From a written entry to what is asked and what the verifier gets; a refusal says where, and what instead.

Invariant: what passes to the verifier is plain JSON, as it was written.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.services.options import Written
from headrace.services.prompts import PromptText, is_chat, is_ids
from headrace.services.source.datasets.base import DatasetError, Example, Labels

KINDS_OF_PROMPT = "text, a list of messages with `role` and `content`, or a list of token ids"


def example_of(entry: Mapping[str, Any], told: Written, where: str) -> Example:
    """The entry without its prompt goes to the verifier. Raises DatasetError."""
    if told.prompt_key not in entry:
        raise DatasetError(
            f"{where}: there is no key `{told.prompt_key}`; it has {', '.join(entry) or 'none'}: set "
            "dataset.prompt_key to that of the prompt"
        )
    rest = {key: value for key, value in entry.items() if key != told.prompt_key}
    return Example(prompt=_asked(entry[told.prompt_key], told, where), example=rest)


def check_plain(entry: Mapping[str, Any], where: str) -> None:
    """Raises DatasetError for a value that JSON has no words for."""
    for key, value in entry.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise DatasetError(
                f"{where}: `{key}` is no plain JSON ({error}); write it as text or a number, or name the "
                "columns that the verifier reads in dataset.columns"
            ) from error


def _asked(prompt: Any, told: Written, where: str) -> PromptText:
    """What the model is asked: the prompt, as a chat where it is to be one."""
    if not ((isinstance(prompt, str) and prompt) or is_chat(prompt) or is_ids(prompt)):
        got = json.dumps(prompt, default=str)[:80]
        raise DatasetError(f"{where}: `{told.prompt_key}` must be {KINDS_OF_PROMPT}; got {got}")
    if not told.is_chat:
        return prompt
    if is_ids(prompt):
        raise DatasetError(
            f"{where}: `{told.prompt_key}` is token ids, which no chat template takes; remove dataset.chat "
            "and dataset.system_prompt"
        )
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    if told.system_prompt is None:
        return messages
    if messages[0]["role"] == "system":
        raise DatasetError(
            f"{where}: `{told.prompt_key}` has a system message of its own; remove dataset.system_prompt"
        )
    return [{"role": "system", "content": told.system_prompt}, *messages]


def labels_of(told: Written, column: Callable[[str], Sequence[Any]], where: Callable[[int], str]) -> Labels:
    """Domains and pass rates; `column`: a key's value of each entry, None where it has none, `where`: of an
    entry. Raises DatasetError where only some entries have a key."""
    values = _all_or_none(column(told.domain_key), told.domain_key, where)
    rates = _all_or_none(column(told.pass_rate_key), told.pass_rate_key, where)
    for number, rate in enumerate(rates):
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
            raise DatasetError(
                f"{where(number)}: `{told.pass_rate_key}` is {rate!r}; a pass rate is a number from 0 to 1"
            )
    names = _ranked(values)
    place = {name: number for number, name in enumerate(names)}
    return Labels(
        names=tuple(map(str, names)),
        domains=np.array([place[value] for value in values], dtype=np.int64) if values else None,
        pass_rates=np.array(rates, dtype=np.float64) if rates else None,
    )


def _all_or_none(values: Sequence[Any], key: str, where: Callable[[int], str]) -> Sequence[Any]:
    """Values of a key that every entry has; none where no entry has it."""
    told = [isinstance(value, str | int | float) for value in values]
    if any(told) and not all(told):
        first = told.index(False)
        raise DatasetError(
            f"{where(first)}: `{key}` is {values[first]!r}, other entries have a number or a text there; "
            "give every entry one, or none"
        )
    return values if all(told) else ()


def _ranked(values: Sequence[Any]) -> list[Any]:
    """Distinct values: numbers from the lowest up, others as they first come."""
    distinct = list(dict.fromkeys(values))
    return sorted(distinct) if all(isinstance(value, int | float) for value in distinct) else distinct
