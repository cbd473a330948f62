import numpy as np
import pytest
import torch

from headrace.algorithms.base import GroupScores
from headrace.algorithms.clipped import ClippedRatio
from headrace.algorithms.options import GrpoOptions
from headrace.services.models import load
from headrace.services.models.precision import full_precision
from headrace.services.options import OptimizerOptions
from headrace.services.scoring.model import PackedModel
from headrace.services.trainer.samples import Samples
from headrace.services.trainer.torch_backend import TorchBackend
from tests.services.trainer.copy_task import reward
from tests.services.trainer.plain_grpo import Batch, run, zscore

SAMPLES = 8


def as_samples(batch: Batch) -> Samples:
    lengths = batch.mask.sum(1).tolist()
    size = len(lengths)

    def cut(column: torch.Tensor) -> list[np.ndarray]:
        return [row[:length].numpy() for row, length in zip(column, lengths, strict=True)]

    return Samples(
        uids=np.arange(size),
        groups=np.arange(size) // SAMPLES,
        prompt_ids=list(batch.prompts.numpy()),
        response_ids=cut(batch.answers),
        behaviour_logprobs=cut(batch.logprobs),
        loss_mask=cut(batch.mask),
        rewards=np.zeros(len(batch.advantages)),
        advantages=batch.advantages.numpy(),
    )


@pytest.mark.parametrize("micro_batch_tokens", [100, 8192])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_backend_follows_the_plain_loop(micro_batch_tokens: int, temperature: float) -> None:
    model = load("tiny-copier", dtype="float64", seed=3).model
    full_precision(model)
    ours = TorchBackend(
        PackedModel(model, temperature=temperature),
        OptimizerOptions(lr=1e-3),
        micro_batch_tokens=micro_batch_tokens,
        total_steps=3,
    )
    batches: list[Batch] = []
    weights = run(3, 3, dtype="float64", prompts=8, temperature=temperature, watch=batches.append)
    for step, batch in enumerate(batches):
        ours.accumulate(as_samples(batch), ClippedRatio(GrpoOptions()))
        ours.step(step)
    for name, tensor in ours.weights().items():
        torch.testing.assert_close(tensor, weights[name], rtol=0, atol=1e-9, msg=name)


def test_the_plain_loop_credits_like_grpo() -> None:
    rewards = torch.tensor([1.0, 0.0, 0.25, 0.1, 0.1, 0.1], dtype=torch.float64)
    scores = GroupScores(
        groups=np.array([0, 0, 0, 1, 1, 1]), rewards=rewards.numpy(), lengths=np.ones(6, dtype=int)
    )
    credit = ClippedRatio(GrpoOptions()).advantages(scores)
    np.testing.assert_allclose(zscore(rewards, 3).numpy(), credit, rtol=0, atol=1e-12)


def test_the_plain_loop_rewards_like_the_verifier() -> None:
    assert reward("abca", "abca") == 1.0
    assert reward("abaa", "abca") == pytest.approx(0.375, abs=1e-12)
    assert reward("", "abca") == 0.0
    assert reward("abcaa", "abca") == pytest.approx(0.4, abs=1e-12)
