"""Updates: how a batch becomes optimizer steps, and what changes from one to the next."""

from headrace.algorithms.updates.accumulate import Accumulate
from headrace.algorithms.updates.annealed import Annealed
from headrace.algorithms.updates.base import UpdateSchedule
from headrace.algorithms.updates.greedy_rate import GreedyRate
from headrace.algorithms.updates.mini_batches import MiniBatches

UPDATES: dict[str, type[UpdateSchedule]] = {"accumulate": Accumulate, "mini_batches": MiniBatches}
"""Update schedules by the name that a dataflow gives as `kind`."""

__all__ = ["UPDATES", "Accumulate", "Annealed", "GreedyRate", "MiniBatches", "UpdateSchedule"]
