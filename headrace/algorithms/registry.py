"""Algorithms by the name that a dataflow gives as `kind`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from headrace.algorithms.atod import Atod
from headrace.algorithms.base import Algorithm
from headrace.algorithms.by_path import find
from headrace.algorithms.clipped import ClippedRatio, Dapo, Gspo, GspoToken, Rloo
from headrace.algorithms.corrected import CorrectedRatio
from headrace.algorithms.masked import M2po, Sao
from headrace.algorithms.options import AlgorithmOptions, PythonOptions
from headrace.algorithms.options.policy_gradient import PolicyGradient
from headrace.algorithms.pacs import Pacs
from headrace.algorithms.rover import Rover
from headrace.algorithms.supervised import Opd, Sft
from headrace.algorithms.value import ValueFit
from headrace.algorithms.weighted import Topr, WeightedGradient

ALGORITHMS: dict[str, Callable[[Any], Algorithm]] = {
    "grpo": ClippedRatio,
    "dr_grpo": ClippedRatio,
    "dapo": Dapo,
    "atod": Atod,
    "gspo": Gspo,
    "gspo_token": GspoToken,
    "ppo": ClippedRatio,
    "reinforce_pp": ClippedRatio,
    "rloo": Rloo,
    "decoupled_ppo": CorrectedRatio,
    "tis": CorrectedRatio,
    "icepop": CorrectedRatio,
    "cispo": WeightedGradient,
    "rapid": WeightedGradient,
    "topr": Topr,
    "sao": Sao,
    "m2po": M2po,
    "sft": Sft,
    "opd": Opd,
    "pacs": Pacs,
    "rover": Rover,
    "value": ValueFit,
}
"""What makes an algorithm of the options of its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What an algorithm is made of; plain data."""

    options: AlgorithmOptions
    max_new_tokens: int
    step: int

    def build(self) -> Algorithm:
        """As the function `build`."""
        return build(self.options, max_new_tokens=self.max_new_tokens, step=self.step)


def build(options: AlgorithmOptions, *, max_new_tokens: int, step: int = 0) -> Algorithm:
    """The algorithm that `options` name, as it is at a training step of the run; it knows its recipe.

    `max_new_tokens` is the rollout's, for a length that the options leave out.

    Raises ValueError for options that contradict each other and for a user's class that is not as it was
    declared, ImportError where its module does not import.
    """
    algorithm = _made(options, max_new_tokens, step)
    algorithm.recipe = Recipe(options=options, max_new_tokens=max_new_tokens, step=step)
    return algorithm


def _made(options: AlgorithmOptions, max_new_tokens: int, step: int) -> Algorithm:
    if isinstance(options, PythonOptions):
        return _of_user(options)
    if isinstance(options, PolicyGradient) and options.sequence_length is None:
        options = replace(options, sequence_length=max_new_tokens)
    return ALGORITHMS[options.kind](options.at(step))


def _of_user(options: PythonOptions) -> Algorithm:
    algorithm = find(options.path, key="algorithm.path", what="class")(**options.options)
    if Algorithm not in type(algorithm).__mro__:
        raise ValueError(
            f"algorithm.path: {options.path} makes a {type(algorithm).__name__}; "
            "subclass headrace.algorithms.base.Algorithm"
        )
    if set(algorithm.needs()) != set(options.reads):
        raise ValueError(
            f"algorithm.reads is {list(options.reads)}, but needs() of {options.path} returns "
            f"{list(algorithm.needs())}; write the same names in both"
        )
    return algorithm
