"""Random streams by counter: the number drawn at a place depends on the seed and the place alone.

Nothing is carried from draw to draw, so batching, interruption and resumption never change a sample.
"""

from collections.abc import Sequence

import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_MASK = (1 << 64) - 1


def stream_keys(seeds: Sequence[int]) -> np.ndarray:
    """uint64 [B]: one well-mixed key per seed (any Python integer, taken modulo 2^64)."""
    return _mix(np.array([seed & _MASK for seed in seeds], dtype=np.uint64))


def uniforms(keys: np.ndarray, places: np.ndarray) -> np.ndarray:
    """float64 [B] in [0, 1): the number at place `places[i]` (int [B]) of stream `keys[i]` (uint64 [B])."""
    bits = _mix(keys + (places.astype(np.uint64) + np.uint64(1)) * _STEP)
    return (bits >> np.uint64(12)).astype(np.float64) * 2.0**-52


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014, doi.org/10.1145/2660193.2660195)."""
    x = (x ^ (x >> np.uint64(30))) * _MULTIPLY_1
    x = (x ^ (x >> np.uint64(27))) * _MULTIPLY_2
    return x ^ (x >> np.uint64(31))
