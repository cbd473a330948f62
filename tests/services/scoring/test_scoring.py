import copy
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from transformers import MistralConfig, MistralForCausalLM, PreTrainedModel

from headrace.services.scoring.attention import BranchPlan, RowPlan, plan
from headrace.services.scoring.model import PackedModel, token_logprobs
from headrace.services.scoring.packing import Tree, pack
from headrace.services.scoring.score import score
from headrace.services.scoring.scorer import ONE_BY_ONE
from tests.services.scoring.models import ARCHITECTURES, VOCABULARY, gpt2, llama, naive_logprobs

Make = Callable[[torch.dtype], PreTrainedModel]
DEVICE = torch.device("cpu")


def ragged(
    groups: int, samples: int, prompt: int, answer: int
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    random = np.random.default_rng(3)
    prompts = [random.integers(0, VOCABULARY, random.integers(1, prompt + 1)) for _ in range(groups)]
    responses = [
        random.integers(0, VOCABULARY, random.integers(1, answer + 1)) for _ in range(groups * samples)
    ]
    return [p for p in prompts for _ in range(samples)], responses, np.repeat(np.arange(groups), samples)


@pytest.mark.parametrize("make", ARCHITECTURES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("max_tokens", [1, 40, 8192])
def test_packed_logprobs_equal_those_of_a_padded_batch(
    make: Make, dtype: torch.dtype, tolerance: float, temperature: float, max_tokens: int
) -> None:
    model = make(dtype)
    prompts, responses, groups = ragged(groups=3, samples=4, prompt=9, answer=7)
    with torch.no_grad():
        expected = naive_logprobs(copy.deepcopy(model), prompts, responses, temperature)
    scores = score(
        PackedModel(model, temperature=temperature).logprobs,
        prompts,
        responses,
        groups,
        max_tokens=max_tokens,
    )
    for got, want in zip(scores, expected, strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", [RowPlan, BranchPlan])
@pytest.mark.parametrize("samples", [1, 5])
def test_both_plans_give_the_outputs_and_gradients_of_a_dense_mask(
    kind: type[RowPlan] | type[BranchPlan], samples: int
) -> None:
    prompts, responses, groups = ragged(groups=4, samples=samples, prompt=6, answer=5)
    (packed,) = pack(prompts, responses, groups, max_tokens=10_000)
    size = len(packed.input_ids)
    states = torch.randn(3, 2, size, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    sees = torch.zeros(size, size, dtype=torch.bool)
    for tree in packed.trees:
        prompt = slice(tree.start, tree.start + tree.prompt)
        sees[prompt, prompt] = torch.ones(tree.prompt, tree.prompt).tril().bool()
        place = prompt.stop
        for fed in tree.answers:
            own = slice(place, place + fed)
            sees[own, prompt] = True
            sees[own, own] = torch.ones(fed, fed).tril().bool()
            place += fed
    direct, planned = states.clone().requires_grad_(), states.clone().requires_grad_()
    want = torch.nn.functional.scaled_dot_product_attention(*direct[:, None], attn_mask=sees, scale=0.3)[0]
    made = kind(packed.trees, device=DEVICE, dtype=torch.float64)
    got = made.attend(planned[0], planned[1], planned[2], 0.3).transpose(0, 1)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)
    weights = torch.linspace(-1, 1, want.numel(), dtype=torch.float64).view_as(want)
    (want * weights).sum().backward()
    (got * weights).sum().backward()
    torch.testing.assert_close(planned.grad, direct.grad, rtol=0, atol=1e-12)


def test_short_trees_take_rows_and_long_ones_branches() -> None:
    short = [Tree(start=37 * i, prompt=5, answers=(4,) * 8) for i in range(32)]
    long = [Tree(start=0, prompt=256, answers=(90,) * 8)]
    assert isinstance(plan(short, device=DEVICE, dtype=torch.float32), RowPlan)
    assert isinstance(plan(long, device=DEVICE, dtype=torch.float32), BranchPlan)


def test_long_samples_are_scored_exactly_too() -> None:
    model = llama()
    prompts, responses, groups = ragged(groups=2, samples=6, prompt=120, answer=90)
    with torch.no_grad():
        expected = naive_logprobs(copy.deepcopy(model), prompts, responses, 1.0)
    scores = score(PackedModel(model, temperature=1.0).logprobs, prompts, responses, groups, max_tokens=8192)
    for got, want in zip(scores, expected, strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=0, atol=1e-12)


def test_the_wrapped_model_still_serves_padded_batches_and_saves_no_trace_of_the_wrapping(tmp_path) -> None:
    model, untouched = llama(), llama()
    PackedModel(model, temperature=1.0)
    prompts, responses, _ = ragged(groups=2, samples=2, prompt=5, answer=4)
    for got, want in zip(
        naive_logprobs(model, prompts, responses, 1.0),
        naive_logprobs(untouched, prompts, responses, 1.0),
        strict=True,
    ):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-12)
    model.save_pretrained(tmp_path)
    assert "headrace" not in (tmp_path / "config.json").read_text()


def test_temperature_divides_logits_before_the_softmax() -> None:
    logits = torch.tensor([[2.0, 0.0]], dtype=torch.float64)
    (got,) = token_logprobs(logits, torch.tensor([0]), temperature=0.5).tolist()
    assert got == pytest.approx(-math.log1p(math.exp(-4.0)), abs=1e-12)
    assert round(got, 4) == -0.0181


def test_half_precision_logits_are_scored_in_float32() -> None:
    logits = torch.zeros(1, 4, dtype=torch.bfloat16)
    got = token_logprobs(logits, torch.tensor([1]), temperature=1.0)
    assert got.dtype == torch.float32
    assert got.item() == pytest.approx(-math.log(4.0), abs=1e-7)


def test_dropout_is_off() -> None:
    model = gpt2()
    model.train()
    prompts, responses, groups = ragged(groups=2, samples=2, prompt=5, answer=4)
    packed = PackedModel(model, temperature=1.0)
    first, second = (score(packed.logprobs, prompts, responses, groups, max_tokens=100) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_an_empty_answer_has_no_scores() -> None:
    prompt, empty = np.array([1, 2]), np.array([], dtype=np.int32)
    packed = PackedModel(llama(), temperature=1.0)
    scores = score(packed.logprobs, [prompt, prompt], [empty, prompt], np.zeros(2, dtype=int), max_tokens=9)
    assert [len(values) for values in scores] == [0, 2]


def test_a_window_shorter_than_a_sample_is_refused() -> None:
    config = MistralConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        sliding_window=4,
    )
    packed = PackedModel(MistralForCausalLM(config), temperature=1.0)
    ids = np.arange(4)
    with pytest.raises(ValueError, match="window of 4 tokens and the longest sample has 7"):
        score(packed.logprobs, [ids], [ids], np.array([0]), max_tokens=100)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_a_temperature_that_is_not_above_zero_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match="need one above 0"):
        PackedModel(llama(), temperature=temperature)


def test_packs_of_one_answer_give_it_the_same_bits_in_whatever_company() -> None:
    scores = PackedModel(llama(torch.float32), temperature=1.0).logprobs
    prompts, responses, groups = ragged(groups=3, samples=4, prompt=9, answer=7)
    together = score(scores, prompts, responses, groups, max_tokens=ONE_BY_ONE)
    for i, in_company in enumerate(together):
        (alone,) = score(scores, [prompts[i]], [responses[i]], groups[i : i + 1], max_tokens=ONE_BY_ONE)
        assert alone.tobytes() == in_company.tobytes()
