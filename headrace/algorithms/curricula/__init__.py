"""Curricula: which prompt comes next, by schedule or by what the run has learned so far."""

from headrace.algorithms.curricula.base import DataSampler
from headrace.algorithms.curricula.domains import DomainSampler, Mixture, Uniform
from headrace.algorithms.curricula.dump import Dump
from headrace.algorithms.curricula.easy_to_hard import (
    CosineLevels,
    GaussianLevels,
    cosine_levels,
    gaussian_levels,
)
from headrace.algorithms.curricula.hard_focus import HardFocus
from headrace.algorithms.curricula.options import SamplerOptions, Stage
from headrace.algorithms.curricula.paced import Paced, online_accuracy, reference_accuracy
from headrace.algorithms.curricula.profiled import Profiled
from headrace.algorithms.curricula.registry import SAMPLERS, build_sampler
from headrace.algorithms.curricula.under_optimised import UnderOptimised

__all__ = [
    "SAMPLERS",
    "CosineLevels",
    "DataSampler",
    "DomainSampler",
    "Dump",
    "GaussianLevels",
    "HardFocus",
    "Mixture",
    "Paced",
    "Profiled",
    "SamplerOptions",
    "Stage",
    "UnderOptimised",
    "Uniform",
    "build_sampler",
    "cosine_levels",
    "gaussian_levels",
    "online_accuracy",
    "reference_accuracy",
]
