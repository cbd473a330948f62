"""The settings of every algorithm, as plain data: read and checked before torch is loaded."""

from headrace.algorithms.options.base import Options
from headrace.algorithms.options.policy_gradient import (
    AtodOptions,
    CispoOptions,
    DapoOptions,
    DecoupledPpoOptions,
    DrGrpoOptions,
    GrpoOptions,
    GspoOptions,
    GspoTokenOptions,
    IcePopOptions,
    M2poOptions,
    PpoOptions,
    RapidOptions,
    ReinforcePpOptions,
    RlooOptions,
    SaoOptions,
    TisOptions,
    ToprOptions,
)
from headrace.algorithms.options.supervised import OpdOptions, PacsOptions, RoverOptions, SftOptions
from headrace.algorithms.options.user import PythonOptions
from headrace.algorithms.options.value import ValueOptions

__all__ = [
    "AlgorithmOptions",
    "AtodOptions",
    "CispoOptions",
    "DapoOptions",
    "DecoupledPpoOptions",
    "DrGrpoOptions",
    "GrpoOptions",
    "GspoOptions",
    "GspoTokenOptions",
    "IcePopOptions",
    "M2poOptions",
    "OpdOptions",
    "Options",
    "PacsOptions",
    "PpoOptions",
    "PythonOptions",
    "RapidOptions",
    "ReinforcePpOptions",
    "RlooOptions",
    "RoverOptions",
    "SaoOptions",
    "SftOptions",
    "TisOptions",
    "ToprOptions",
    "ValueOptions",
]

AlgorithmOptions = (
    GrpoOptions
    | DrGrpoOptions
    | DapoOptions
    | AtodOptions
    | GspoOptions
    | GspoTokenOptions
    | CispoOptions
    | PpoOptions
    | DecoupledPpoOptions
    | TisOptions
    | IcePopOptions
    | SaoOptions
    | M2poOptions
    | ToprOptions
    | RapidOptions
    | ReinforcePpOptions
    | RlooOptions
    | SftOptions
    | OpdOptions
    | PacsOptions
    | RoverOptions
    | ValueOptions
    | PythonOptions
)
