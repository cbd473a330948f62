from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from headrace.algorithms.base import Algorithm
from headrace.algorithms.clipped import ClippedRatio
from headrace.algorithms.masked import M2po
from headrace.algorithms.options import GrpoOptions, M2poOptions, PacsOptions
from headrace.algorithms.options.policy_gradient import Reduction
from headrace.algorithms.pacs import Pacs
from headrace.services.options import OptimizerOptions
from headrace.services.scoring.model import PackedModel
from headrace.services.scoring.packing import pack
from headrace.services.trainer.backend import NonFiniteGradientError
from headrace.services.trainer.tokens import group_totals, token_batch, trained_tokens
from headrace.services.trainer.torch_backend import TorchBackend
from tests.services.scoring.models import (
    ARCHITECTURES,
    VOCABULARY,
    gpt2,
    grouped_query_llama,
    llama,
    naive_logprobs,
)
from tests.services.trainer.batches import (
    OPTIMIZER,
    adamw,
    naive_gradients,
    naive_update,
    ragged_samples,
    select,
)

Make = Callable[[torch.dtype], PreTrainedModel]
GRPO = ClippedRatio(GrpoOptions(kl_coef=0.1))


def backend(
    model: PreTrainedModel,
    *,
    micro_batch_tokens: int = 8192,
    optimizer: OptimizerOptions = OPTIMIZER,
    total_steps: int | None = None,
) -> TorchBackend:
    scores = PackedModel(model, temperature=1.0)
    return TorchBackend(scores, optimizer, micro_batch_tokens=micro_batch_tokens, total_steps=total_steps)


def assert_weights(got: TorchBackend, want: PreTrainedModel, tolerance: float) -> None:
    expected = dict(want.named_parameters())
    for name, tensor in got.weights().items():
        torch.testing.assert_close(tensor, expected[name].detach(), rtol=0, atol=tolerance, msg=name)


@pytest.mark.parametrize("make", ARCHITECTURES)
@pytest.mark.parametrize("micro_batch_tokens", [1, 30, 8192])
@pytest.mark.parametrize("reduction", get_args(Reduction))
def test_packed_gradients_equal_padded_ones_in_float64(
    make: Make, micro_batch_tokens: int, reduction: Reduction
) -> None:
    samples = ragged_samples(4, 5, masked=(2, 15, 16, 17, 18, 19), empty=(7,))
    algorithm = ClippedRatio(GrpoOptions(kl_coef=0.1, reduction=reduction, sequence_length=8))
    want = naive_gradients(make(torch.float64), samples, algorithm)
    model = make(torch.float64)
    ours = backend(model, micro_batch_tokens=micro_batch_tokens)
    ours.accumulate(samples, algorithm)
    summed = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    count = ours.step(0).count
    for name, gradient in summed.items():
        torch.testing.assert_close(gradient / count, want[name], rtol=1e-12, atol=1e-12, msg=name)


@pytest.mark.parametrize("samples_per_group", [1, 3, 8])
def test_packed_gradients_equal_padded_ones_in_float32(samples_per_group: int) -> None:
    samples = ragged_samples(4, samples_per_group)
    want = naive_gradients(grouped_query_llama(torch.float32), samples, GRPO)
    model = grouped_query_llama(torch.float32)
    ours = backend(model)
    ours.accumulate(samples, GRPO)
    tokens = sum(int(mask.sum()) for mask in samples.loss_mask)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        scale = float(want[name].abs().max())
        torch.testing.assert_close(parameter.grad / tokens, want[name], rtol=0, atol=5e-6 * scale, msg=name)


@pytest.mark.parametrize("make", ARCHITECTURES)
def test_three_packed_steps_equal_three_padded_ones(make: Make) -> None:
    samples = ragged_samples(4, 5)
    naive, ours = make(torch.float64), backend(make(torch.float64), micro_batch_tokens=50)
    optimizer = adamw(naive)
    for step in range(3):
        ours.accumulate(samples, GRPO)
        assert ours.step(step).grad_norm == pytest.approx(
            naive_update(naive, samples, GRPO, optimizer), rel=1e-9
        )
    assert_weights(ours, naive, 1e-9)


@pytest.mark.parametrize("split", [[[0, 1, 2, 3]], [[2], [0, 3], [1]], [[3], [2], [1], [0]]])
def test_how_groups_arrive_does_not_change_the_update(split: list[list[int]]) -> None:
    samples = ragged_samples(4, 3, masked=(1,))
    naive, ours = llama(), backend(llama())
    for groups in split:
        ours.accumulate(select(samples, [3 * g + i for g in groups for i in range(3)]), GRPO)
    ours.step(0)
    naive_update(naive, samples, GRPO, adamw(naive))
    assert_weights(ours, naive, 1e-10)


def test_sums_are_those_of_the_whole_step() -> None:
    samples = ragged_samples(4, 3)
    ours = backend(llama(), micro_batch_tokens=20)
    parts = [ours.accumulate(select(samples, list(range(6 * h, 6 * h + 6))), GRPO) for h in range(2)]
    result = ours.step(0)
    tokens = sum(int(mask.sum()) for mask in samples.loss_mask)
    assert result.count == result.sums["tokens"] == tokens
    for name, value in result.sums.items():
        assert parts[0][name] + parts[1][name] == pytest.approx(value, abs=1e-12)
    assert result.maxima["ratio/max"] >= result.sums["ratio/mean"] / tokens


def test_an_all_masked_step_is_skipped_and_counted_and_changes_nothing() -> None:
    ours, untouched = backend(llama()), llama()
    assert ours.accumulate(ragged_samples(2, 2, masked=(0, 1, 2, 3)), GRPO) == {}
    result = ours.step(0)
    assert (result.skipped, result.count, result.grad_norm) == (True, 0.0, 0.0)
    assert_weights(ours, untouched, 0.0)


def test_what_stands_at_masked_tokens_is_never_read() -> None:
    samples = ragged_samples(2, 3)
    poisoned = replace(
        samples,
        behaviour_logprobs=[
            np.where(mask > 0, values, np.nan)
            for mask, values in zip(samples.loss_mask, samples.behaviour_logprobs, strict=True)
        ],
    )
    clean, ours = backend(llama()), backend(llama())
    clean.accumulate(samples, GRPO)
    ours.accumulate(poisoned, GRPO)
    assert clean.step(0).grad_norm == ours.step(0).grad_norm


def test_a_gradient_that_is_not_finite_stops_the_step_by_name_and_keeps_the_weights() -> None:
    samples = ragged_samples(1, 2)
    ours, untouched = backend(llama()), llama()
    ours.accumulate(replace(samples, advantages=np.array([np.inf, 1.0])), GRPO)
    with pytest.raises(NonFiniteGradientError, match="step 17: the gradient norm is"):
        ours.step(17)
    assert_weights(ours, untouched, 0.0)
    ours.accumulate(samples, GRPO)
    assert not ours.step(18).skipped


def test_logprobs_come_in_the_order_asked_and_under_the_current_weights() -> None:
    samples, ours, model = ragged_samples(3, 3, empty=(4,)), backend(llama(), micro_batch_tokens=15), llama()
    with torch.no_grad():
        want = naive_logprobs(model, list(samples.prompt_ids), list(samples.response_ids), 1.0)
    got = ours.before(samples.prompt_ids, samples.response_ids, samples.groups)["logprobs"]
    for ours_T, naive_T in zip(got, want, strict=True):
        np.testing.assert_allclose(ours_T, naive_T.numpy(), rtol=0, atol=1e-12)


def test_the_learning_rate_follows_the_step_that_is_asked_for() -> None:
    options = OptimizerOptions(lr=0.4, schedule="linear", warmup_steps=2)
    ours = backend(llama(), optimizer=options, total_steps=6)
    rates = []
    for step in range(6):
        ours.accumulate(ragged_samples(1, 2), GRPO)
        rates.append(ours.step(step).lr)
    assert rates == pytest.approx([0.2, 0.4, 0.4, 0.3, 0.2, 0.1], abs=1e-12)


def test_a_schedule_without_a_total_is_refused_at_once() -> None:
    options = OptimizerOptions(schedule="cosine")
    with pytest.raises(ValueError, match="needs the total of optimizer steps, got None"):
        backend(llama(), optimizer=options)


def test_tied_weights_are_given_once_by_their_hugging_face_names() -> None:
    names = backend(llama()).weights().keys()
    assert "model.embed_tokens.weight" in names and "lm_head.weight" not in names
    assert "transformer.wte.weight" in backend(gpt2()).weights()


def test_a_restored_backend_goes_on_bit_for_bit() -> None:
    samples = ragged_samples(3, 3)
    first, second = backend(llama(torch.float32)), backend(llama(torch.float32))
    first.accumulate(samples, GRPO)
    first.step(0)
    second.load_state(
        {name: tensor.clone() for name, tensor in first.weights().items()},
        {name: tensor.clone() for name, tensor in first.state().items()},
    )
    for ours in (first, second):
        ours.accumulate(samples, GRPO)
        ours.step(1)
    for name, tensor in first.weights().items():
        assert torch.equal(tensor, second.weights()[name]), name


def test_state_within_a_step_is_refused_and_discard_ends_the_step() -> None:
    ours, untouched = backend(llama()), llama()
    ours.accumulate(ragged_samples(1, 2), GRPO)
    with pytest.raises(RuntimeError, match="right after step"):
        ours.state()
    ours.discard()
    ours.state()
    assert ours.step(0).skipped
    assert_weights(ours, untouched, 0.0)


def test_weights_of_another_model_are_refused_before_any_is_copied() -> None:
    ours, untouched = backend(llama()), llama()
    weights = {name: tensor + 1 for name, tensor in ours.weights().items()}
    weights["model.norm.weight"] = torch.zeros(3)
    with pytest.raises(ValueError, match=r"model.norm.weight is \(3,\), not \(32,\)"):
        ours.load_state(weights, ours.state())
    with pytest.raises(ValueError, match="do not fit the model"):
        ours.load_state({}, ours.state())
    assert_weights(ours, untouched, 0.0)


def test_a_saved_model_opens_with_transformers(tmp_path: Path) -> None:
    ours = backend(llama(torch.float32))
    ours.save(tmp_path)
    opened = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert_weights(ours, opened, 0.0)


@pytest.mark.parametrize("micro_batch_tokens", [1, 30, 8192])
@pytest.mark.parametrize("algorithm", [Pacs(PacsOptions()), M2po(M2poOptions(threshold=0.5))])
def test_decisions_over_groups_and_batches_come_before_any_gradient_in_any_packing(
    algorithm: Algorithm, micro_batch_tokens: int
) -> None:
    samples = ragged_samples(3, 4, masked=(2,), empty=(7,))
    want = naive_gradients(llama(), samples, algorithm)
    model = llama()
    ours = backend(model, micro_batch_tokens=micro_batch_tokens)
    ours.accumulate(samples, algorithm)
    summed = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    count = ours.step(0).count
    for name, gradient in summed.items():
        torch.testing.assert_close(gradient / count, want[name], rtol=1e-12, atol=1e-12, msg=name)


def test_an_algorithm_that_prepares_skips_an_all_masked_step_too() -> None:
    ours = backend(llama())
    assert ours.accumulate(ragged_samples(2, 2, masked=(0, 1, 2, 3)), Pacs(PacsOptions())) == {}
    assert ours.step(0).skipped


def test_the_entropy_of_the_policy_is_among_the_sums() -> None:
    ours = backend(llama())
    sums = ours.accumulate(ragged_samples(2, 2), GRPO)
    assert 0.0 < sums["actor/entropy"] / sums["tokens"] < np.log(VOCABULARY)


def test_columns_and_credit_by_token_reach_the_loss_without_what_stands_at_masked_tokens() -> None:
    samples = ragged_samples(2, 3)
    lengths = [len(mask) for mask in samples.loss_mask]
    teacher = [np.where(mask > 0, -2.0, np.nan) for mask in samples.loss_mask]
    given = replace(
        samples,
        advantages=[np.where(mask > 0, 1.0, np.nan) for mask in samples.loss_mask],
        columns={"teacher_logprobs": teacher},
    )
    packs = pack(samples.prompt_ids, samples.response_ids, samples.groups, max_tokens=10_000)
    tokens = trained_tokens(given)
    like = {"dtype": torch.float64, "device": torch.device("cpu")}
    batch = token_batch(given, packs, group_totals(tokens, given.groups), **like)
    assert len(batch.mask) == sum(lengths)
    assert torch.equal(batch.column("teacher_logprobs"), -2.0 * batch.mask)
    assert torch.equal(batch.advantages, batch.mask)
    assert sorted(batch.group.tolist()) == [0, 0, 0, 1, 1, 1]
    assert torch.equal(batch.rewards, torch.from_numpy(samples.rewards[packs[0].index]))


def test_a_loss_that_reads_a_value_head_is_refused() -> None:
    class Critic(ClippedRatio):
        def outputs(self) -> tuple[str, ...]:
            return ("values",)

    with pytest.raises(ValueError, match="values need a value head"):
        backend(llama()).accumulate(ragged_samples(1, 2), Critic(GrpoOptions()))
