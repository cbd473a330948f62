"""The copy task as the engine draws it: prompts by position, seeds by uid, rewards by the published rule."""

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from headrace.algorithms.seeds import sample_seed
from headrace.services.options import CopyData
from headrace.services.rollout.engines.decoding.draw import draw
from headrace.services.rollout.engines.decoding.streams import stream_keys, uniforms
from headrace.services.source.datasets.copy import CopyWords
from headrace.services.source.order import DataOrder


class CopyTask:
    """Positions count the prompts of a run; each is answered `samples` times."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, seed: int, samples: int) -> None:
        self._tokenizer = tokenizer
        self._seed = seed
        self._samples = samples
        self._words = CopyWords(CopyData(), seed)
        self._order = DataOrder(size=CopyData().size, seed=seed)

    def prompts(self, positions: range) -> torch.Tensor:
        """int64 [B, P], every prompt `samples` times."""
        ids = [self._tokenizer.encode(self._word(position) + ">") for position in positions]
        return torch.tensor(ids).repeat_interleave(self._samples, 0)

    def seeds(self, positions: range) -> list[int]:
        uids = [position << 16 | index for position in positions for index in range(self._samples)]
        return [sample_seed(self._seed, uid) for uid in uids]

    def rewards(self, positions: range, answers: list[list[int]]) -> torch.Tensor:
        """float64 [B], of answers without their stop token."""
        words = [self._word(position) for position in positions for _ in range(self._samples)]
        texts = [str(self._tokenizer.decode(answer, skip_special_tokens=True)) for answer in answers]
        return torch.tensor(
            [reward("".join(t.split()), w) for t, w in zip(texts, words, strict=True)], dtype=torch.float64
        )

    def _word(self, position: int) -> str:
        return self._words[self._order.at(position)[1]].example["answer"]


def reward(text: str, word: str) -> float:
    right = sum(a == b for a, b in zip(text, word, strict=False))
    return 0.5 * (text == word) + 0.5 * right / max(len(text), len(word))


def seeded(logits: torch.Tensor, seeds: list[int], place: int, temperature: float) -> torch.Tensor:
    """Token ids [B] from logits [B, V], drawn at `place` of each seed's stream."""
    numbers = uniforms(stream_keys(seeds), np.full(len(seeds), place))
    return draw(logits, temperature, torch.from_numpy(numbers))[0]
