"""A node type of one's own: how loud answers are, and a reward that prefers quiet ones."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import ClassVar

from headrace.algorithms.bounds import Share
from headrace.services.base import Context, Output
from headrace.services.options import Placed
from headrace.services.texts import decode
from headrace.transferqueue import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LoudnessOptions(Placed):
    """Keys of the node, beside those that every node has."""

    letters: str = "aeiou"
    """Letters that count as loud."""
    ceiling: Share = 1.0
    """Loudness beyond which an answer is as loud as can be."""


class Loudness:
    """Share of an answer's letters that are loud."""

    Options = LoudnessOptions
    reads: ClassVar = {"response_ids": "list<int32>"}
    writes: ClassVar = {"loudness": "float64"}
    capacity = 256

    async def setup(self, context: Context) -> None:
        from headrace.services.models import load_tokenizer

        self._options: LoudnessOptions = context.options
        self._tokenizer = load_tokenizer(context.policy.model)

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        texts = decode(self._tokenizer, rows["response_ids"])
        yield Output(uids=rows.uids, columns={"loudness": [self._loudness(text) for text in texts]})

    def _loudness(self, text: str) -> float:
        loud = sum(letter in self._options.letters for letter in text)
        return min(loud / max(len(text), 1), self._options.ceiling)

    async def close(self) -> None:
        """Holds nothing."""


def quieter(base: float, loudness: float) -> dict[str, float]:
    """A transform: the reward of the verifier, less half of the loudness."""
    return {"reward": base - 0.5 * loudness}
