"""What reweights a credit that is already there: durations, positions, disagreement.

Weights have mean 1 over what they weigh, so they move emphasis and leave the size of the update alone.
"""

import numpy as np

from headrace.algorithms.advantages.grouping import assert_one_per_sample
from headrace.algorithms.advantages.tokens import Ragged


def duration_weighted(advantages: np.ndarray, durations_s: np.ndarray) -> np.ndarray:
    """Advantages times how long each sample's action ran, over the batch's mean duration.

    https://arxiv.org/abs/2509.01684: among asynchronous workers an action that takes d seconds is sampled in
    proportion to 1 / d, which the weight undoes. `advantages` [B]; `durations_s` [B], seconds, above 0.
    Returns float64 [B]. Raises ValueError where a duration is not above 0.
    """
    assert_one_per_sample(advantages, durations_s, "durations_s")
    if len(durations_s) and not (durations_s > 0).all():
        raise ValueError(
            f"durations_s must be above 0, got {durations_s.min()}; measure each action from start to result"
        )
    return (
        advantages * durations_s / durations_s.mean() if len(durations_s) else advantages.astype(np.float64)
    )


def position_weights(lengths: np.ndarray, *, tilt: float) -> list[np.ndarray]:
    """Weights exp(tilt * p) of the tokens of each sample by their place p in (0, 1), scaled to mean 1.

    Temporal scheduling of credit: a tilt above 0 stresses late tokens, below 0 early ones; annealed to 0 it
    ends at uniform weights. The exponential is ours: the published description leaves the form open.
    `lengths` int64 [B]. Returns ragged float64.
    """
    weights = [np.exp(tilt * (np.arange(length) + 0.5) / max(length, 1)) for length in lengths.tolist()]
    return [weight / weight.mean() if len(weight) else weight for weight in weights]


def disagreement_weights(
    disagreements: Ragged, uncertainties: Ragged, *, temperature: float
) -> list[np.ndarray]:
    """Weights of the turns of each episode: softmax of disagreement * uncertainty, times the turns: mean 1.

    ATOD's turn-level reweighting: turns on which teacher and student differ while the student is unsure.
    The product under a softmax is ours: the published text says "soft" and "normalised" and gives no formula.
    Both ragged [turns], the distance of the two distributions and the student's entropy, in nats;
    `temperature` in nats squared, above 0: a large one gives uniform weights. Returns ragged float64.
    """
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; it must be above 0")
    weights = []
    for disagreement, uncertainty in zip(disagreements, uncertainties, strict=True):
        scores = np.asarray(disagreement, dtype=np.float64) * uncertainty / temperature
        soft = np.exp(scores - scores.max()) if len(scores) else scores
        weights.append(soft * len(soft) / soft.sum() if len(soft) else soft)
    return weights
