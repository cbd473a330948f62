"""Samplers by the name that a dataflow gives as `kind`."""

from collections.abc import Callable
from typing import Any

from headrace.algorithms.by_path import find
from headrace.algorithms.curricula.base import DataSampler
from headrace.algorithms.curricula.domains import Mixture, Uniform
from headrace.algorithms.curricula.dump import Dump
from headrace.algorithms.curricula.easy_to_hard import CosineLevels, GaussianLevels
from headrace.algorithms.curricula.hard_focus import HardFocus
from headrace.algorithms.curricula.options import PythonSamplerOptions, SamplerOptions
from headrace.algorithms.curricula.paced import Paced
from headrace.algorithms.curricula.profiled import Profiled
from headrace.algorithms.curricula.under_optimised import UnderOptimised
from headrace.algorithms.prompt_data import PromptData

SAMPLERS: dict[str, Callable[[PromptData, Any], DataSampler]] = {
    "uniform": Uniform,
    "mixture": Mixture,
    "dump": Dump,
    "e2h_cosine": CosineLevels,
    "e2h_gaussian": GaussianLevels,
    "rule_reasoner": UnderOptimised,
    "paced_rl": Paced,
    "hard_focus": HardFocus,
    "profiled": Profiled,
}
"""What makes a sampler of the data and the options of its kind."""


def build_sampler(options: SamplerOptions, data: PromptData) -> DataSampler:
    """The sampler that `options` name.

    Raises ValueError where the data lacks what the sampler goes by, and for a user's class that is not
    there; ImportError where its module does not import.
    """
    if isinstance(options, PythonSamplerOptions):
        return find(options.path, key="sampler.path", what="class")(data, **options.options)
    return SAMPLERS[options.kind](data, options)
