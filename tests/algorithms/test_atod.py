import math
from dataclasses import replace

import pytest
import torch

from headrace.algorithms.atod import Atod, turns
from headrace.algorithms.base import PolicyOutput, TokenBatch
from headrace.algorithms.options import AtodOptions
from tests.algorithms.batches import made, token_batch, vector

LOG = math.log


def batch(progress: float = 0.0) -> TokenBatch:
    """Two turns of one answer around an observation, and an answer of one turn."""
    logprobs = vector(LOG(0.5), 0.0, LOG(0.5), LOG(0.5))
    columns = {"teacher_logprobs": vector(LOG(0.25), 0.0, LOG(0.5), LOG(1.0))}
    given = token_batch([[1, 0, 1], [1]], behaviour=logprobs, columns=columns)
    return replace(given, progress=progress)


def gradient(algorithm: Atod, given: TokenBatch) -> list[float]:
    leaf = vector(LOG(0.5), 0.0, LOG(0.5), LOG(0.5)).requires_grad_()
    policy = PolicyOutput(logprobs=leaf, entropy=vector(1.0, 9.0, 1.0, 1.0))
    (got,) = torch.autograd.grad(algorithm.loss(policy, given).total, leaf)
    return got.tolist()


def test_the_share_of_distillation_falls_to_nothing() -> None:
    algorithm = Atod(AtodOptions(distill_until=0.5))
    assert [algorithm.share(progress) for progress in (0.0, 0.25, 0.5, 0.75)] == [1.0, 0.5, 0.0, 0.0]
    assert Atod(AtodOptions(distill_until=0.0)).share(0.0) == 0.0


def test_it_begins_as_distillation_ends_as_grpo_and_is_both_halfway() -> None:
    """Distillation: log pi - log teacher is log 2, 0 and -log 2. GRPO on policy: minus the credit, 1."""
    algorithm = Atod(AtodOptions(distill_until=0.5, turn_temperature=math.inf))
    begins, halfway, ends = (gradient(algorithm, batch(progress)) for progress in (0.0, 0.25, 0.5))
    assert begins == pytest.approx([LOG(2), 0.0, 0.0, -LOG(2)], abs=1e-12)
    assert ends == pytest.approx([-1.0, 0.0, -1.0, -1.0], abs=1e-12)
    assert halfway == pytest.approx([(a + b) / 2 for a, b in zip(begins, ends, strict=True)], abs=1e-12)


def test_turns_weigh_by_disagreement_times_uncertainty_with_mean_1_in_each_answer() -> None:
    """Turns of the first answer score log 2 and 0: their softmax is 2/3 and 1/3, times two turns."""
    got = gradient(Atod(AtodOptions()), batch())
    assert got == pytest.approx([4 / 3 * LOG(2), 0.0, 0.0, -LOG(2)], abs=1e-12)


def test_a_turn_is_a_run_of_trained_tokens_of_one_sample() -> None:
    turn, sample = turns(token_batch([[1, 1, 0, 1], [1], [0, 1]]))
    assert turn.tolist() == [0, 0, 4, 1, 2, 4, 3]
    assert sample.tolist() == [0, 0, 1, 2]
    nothing, of_none = turns(token_batch([[0, 0]]))
    assert (nothing.tolist(), of_none.tolist()) == ([0, 0], [])


def test_the_teacher_is_needed() -> None:
    assert made("atod").needs() == ("teacher_logprobs",)
    assert made("atod", kl_coef=0.1).needs() == ("reference_logprobs", "teacher_logprobs")
