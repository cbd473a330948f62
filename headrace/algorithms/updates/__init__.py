"""Updates: how a batch becomes optimizer steps, and what changes from one to the next."""

from headrace.algorithms.updates.accumulate import Accumulate
from headrace.algorithms.updates.annealed import Annealed
from headrace.algorithms.updates.base import UpdateSchedule
from headrace.algorithms.updates.greedy_rate import GreedyRate
from headrace.algorithms.updates.mini_batches import MiniBatches
from headrace.algorithms.updates.python_update import PythonUpdate

UpdateOptions = Accumulate | MiniBatches | PythonUpdate
"""An update schedule is its own options."""

__all__ = [
    "Accumulate",
    "Annealed",
    "GreedyRate",
    "MiniBatches",
    "PythonUpdate",
    "UpdateOptions",
    "UpdateSchedule",
]
