"""Copy the letters: part of the reward for the whole word, the rest for the share of right positions."""

from collections.abc import Mapping
from typing import Any

from headrace.services.options import CopyVerifier
from headrace.services.verdicts.verdict import Score


class Copy:
    """`example["answer"]` is the word; spaces that a decoder puts between tokens do not count."""

    def __init__(self, options: CopyVerifier) -> None:
        self._exact_weight = options.exact_weight

    def __call__(self, response: str, example: Mapping[str, Any]) -> Score:
        word, wanted = "".join(response.split()), example["answer"]
        exact = float(word == wanted)
        right = sum(got == letter for got, letter in zip(word, wanted, strict=False))
        share = right / max(len(word), len(wanted), 1)
        value = self._exact_weight * exact + (1.0 - self._exact_weight) * share
        return Score(value=value, parts={"exact": exact, "share": share})
