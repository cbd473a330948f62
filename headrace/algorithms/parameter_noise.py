"""Exploration by noise on the weights: one draw of noise serves a whole answer, so its choices agree.

The noise follows from (seed, name of the tensor) alone: a row that stores the seed says which policy made it.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch

from headrace.algorithms.bounds import Decay, Positive
from headrace.algorithms.checked import Checked
from headrace.algorithms.saved import State
from headrace.algorithms.seeds import sample_seed


def perturbed(
    weights: Iterable[tuple[str, torch.Tensor]], *, sigma: float, seed: int
) -> Iterator[tuple[str, torch.Tensor]]:
    """Each tensor plus sigma times standard normal noise; the tensors given stay as they are.

    PSN-RLVR's rollout weights, theta + sigma * noise. Noise is drawn in float32 on the CPU, so every machine
    and device gets the same. `weights`: floating tensors by name. Yields tensors of the same type and place.
    """
    for name, weight in weights:
        generator = torch.Generator().manual_seed(sample_seed(seed, _number(name)))
        noise = torch.randn(weight.shape, generator=generator, dtype=torch.float32)
        yield name, weight + sigma * noise.to(dtype=weight.dtype, device=weight.device)


@dataclass(slots=True, kw_only=True)
class NoiseScale(Checked):
    """Holds the diversity of answers at a target by the size of the noise; PSN-RLVR's adaptive scheduler.

    Its published description names the signals, not the rule: this one multiplies sigma by
    (target / diversity)^gain, by a factor of `largest_move` at most. Diversity is any figure that grows with
    sigma, such as the share of distinct answers in a group, or one less their self-certainty.

    >>> scale = NoiseScale(target=0.5, sigma=0.1, gain=1.0)
    >>> scale.observe(0.4)
    0.125
    """

    target: Positive
    sigma: Positive = 0.01
    """Of the next rollout; at first the one to start from."""
    gain: Positive = 0.5
    largest_move: Positive = 2.0
    """1 or more."""
    smoothing: Decay = 0.0
    """Weight of the past in the moving average of the diversity."""
    _average: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super(NoiseScale, self).__post_init__()
        if self.largest_move < 1.0:
            raise ValueError(f"largest_move is {self.largest_move}; it must be 1 or more")

    def observe(self, diversity: float) -> float:
        """Takes the diversity of the last answers, 0 or more; returns the next sigma."""
        past = diversity if self._average is None else self._average
        self._average = self.smoothing * past + (1.0 - self.smoothing) * diversity
        wanted = (self.target / self._average) ** self.gain if self._average > 0 else self.largest_move
        self.sigma *= min(max(wanted, 1.0 / self.largest_move), self.largest_move)
        return self.sigma

    def state(self) -> State:
        return {"sigma": self.sigma, "average": self._average}

    def load_state(self, state: State) -> None:
        self.sigma, self._average = state["sigma"], state["average"]


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=7).digest(), "little")
