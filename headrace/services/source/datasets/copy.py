"""Copy the letters: the prompt 'abca>' is to be answered with 'abca'.

Each word is drawn from (seed, index) alone, so that none is stored and every epoch sees the same words.
"""

import random

from headrace.services.options import CopyData
from headrace.services.source.datasets.base import DatasetError, Example, Labels, in_turn


class CopyWords:
    def __init__(self, options: CopyData, seed: int) -> None:
        if not options.alphabet:
            raise DatasetError("copy: dataset.alphabet is empty; it must hold at least one letter")
        self._options = options
        self._lengths = options.lengths
        if not self._lengths:
            raise DatasetError("copy: dataset.letters is empty; it must hold at least one length")
        self._seed = seed

    def __len__(self) -> int:
        return self._options.size

    def __getitem__(self, index: int) -> Example:
        draw = random.Random(f"{self._seed} {index}")
        word = "".join(draw.choices(self._options.alphabet, k=self._lengths[index % len(self._lengths)]))
        return Example(prompt=f"{word}>", example={"answer": word})

    def labels(self) -> Labels:
        return in_turn(tuple(map(str, self._lengths)), len(self))
