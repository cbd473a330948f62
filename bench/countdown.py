"""The log-normal work: prompts of 256 tokens, answers that count down from a log-normal length to 1.

A prompt is 255 random number tokens and the separator; an answer is `tk ... t2 t1` and the end token, so its
length k + 1 is decided by its first token alone, whose distribution is LENGTHS. Imports nothing heavy: the
verifier's process loads this file for `score`.
"""

import math
import random
from collections.abc import Iterator

LONGEST = 255
"""Largest k; with the end token an answer has at most 256 tokens."""
MEDIAN, SIGMA = 48.0, 1.0
"""Of the log-normal distribution that k follows before it is cut off at LONGEST."""
PROMPT_TOKENS = 256
VOCABULARY = ["<pad>", "$", ">", *(f"t{k}" for k in range(1, LONGEST + 2))]
END, SEPARATOR, FIRST_NUMBER = 1, 2, 3


def lengths() -> list[float]:
    """Probabilities of k = 1..LONGEST: the log-normal mass of (k - 1/2, k + 1/2], renormalised."""

    def below(x: float) -> float:
        return 0.5 * (1 + math.erf(math.log(x / MEDIAN) / (SIGMA * math.sqrt(2)))) if x > 0 else 0.0

    masses = [below(k + 0.5) - below(k - 0.5) for k in range(1, LONGEST + 1)]
    return [mass / sum(masses) for mass in masses]


def moments() -> tuple[float, float]:
    """Mean and standard deviation of an answer's tokens, the end token included."""
    mean = sum(k * p for k, p in enumerate(lengths(), start=1))
    variance = sum((k - mean) ** 2 * p for k, p in enumerate(lengths(), start=1))
    return mean + 1, math.sqrt(variance)


def prompts(count: int, seed: int) -> Iterator[str]:
    """Prompts in the vocabulary's text form, separated by spaces."""
    rng = random.Random(seed)
    for _ in range(count):
        numbers = (f"t{rng.randint(1, LONGEST + 1)}" for _ in range(PROMPT_TOKENS - 1))
        yield " ".join([*numbers, ">"])


def score(response: str, example: dict[str, object]) -> dict[str, float]:
    """1 for an answer that begins with an even number, else 0: it varies within every group."""
    first = response.split(maxsplit=1)[0] if response.strip() else ""
    even = float(first.startswith("t") and int(first[1:]) % 2 == 0)
    return {"reward": even, "exact": even}
