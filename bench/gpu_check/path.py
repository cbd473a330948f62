"""What a path is, and how it says that it cannot be tried here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Figures = Mapping[str, float]
"""What was measured, by name."""
Tried = Callable[[float], Figures]
"""Takes the GPUs to compute on, 1 or 0 for the CPU; raises where something does not hold."""


class Skip(Exception):
    """The path needs what is not here; says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    name: str
    call: str
    """`module:function`, a `Tried`."""
    limit_s: float
    """After which it counts as hung."""
    needs: tuple[str, ...] = ()
    """Packages beside those that Headrace cannot do without."""


def at_most(name: str, got: float, most: float) -> float:
    """`got`. Raises AssertionError where it is above `most`, or no number."""
    if not got <= most:
        raise AssertionError(f"{name} is {got:.3g}, at most {most:.3g} was due")
    return got
