"""What a judge is asked, and how its reply is read. Pure, and light: `check` uses it too.

Invariant: a text that is filled in is never read as a template again, whatever braces it holds.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from headrace.services.verdicts.verdict import Invalid, Score, Verdict

FIELD: Final = re.compile(r"\{([A-Za-z_][\w.]*)\}")
"""A word in braces; braces around anything else, such as JSON, are text."""
KNOWN: Final = "{prompt}, {response} and {example.KEY}"


class Missing(Exception):
    """The data's entry lacks a key that the template names."""


def unknown_fields(template: str) -> Iterator[str]:
    """Words in braces that stand for nothing."""
    for name in dict.fromkeys(FIELD.findall(template)):
        root, _, key = name.partition(".")
        if name not in ("prompt", "response") and not (root == "example" and key):
            yield name


def fault_of(pattern: str) -> str | None:
    """Why a reply cannot be read by `pattern`; None: it can."""
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        return f"'{pattern}' is no regular expression: {error}"
    return None if groups else f"'{pattern}' has no group, which would hold the score"


def fill(template: str, *, prompt: str, response: str, example: Mapping[str, Any]) -> str:
    """The template with its fields filled in; what is no text goes in as JSON. Raises Missing."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name in ("prompt", "response"):
            return prompt if name == "prompt" else response
        found = _found(example, name.partition(".")[2])
        return found if isinstance(found, str) else json.dumps(found)

    return FIELD.sub(value, template)


def _found(example: Mapping[str, Any], key: str) -> Any:
    """An entry's value at `key`, or at a path of keys."""
    if key in example:
        return example[key]
    first, _, rest = key.partition(".")
    inner = example.get(first)
    if rest and isinstance(inner, Mapping):
        return _found(inner, rest)
    raise Missing(f"its entry has no {key!r}")


def verdict(reply: str, pattern: str, *, scale: float, parts: Mapping[str, float]) -> Verdict:
    """What a reply says: the first group of the pattern's last match, divided by `scale`."""
    matches = list(re.finditer(pattern, reply))
    if not matches or matches[-1][1] is None:
        return Invalid(reason="no score in the reply")
    try:
        score = float(matches[-1][1])
    except ValueError:
        return Invalid(reason="the score is no number")
    if not math.isfinite(score):
        return Invalid(reason="the score is no number")
    return Score(value=score / scale, parts=parts)
