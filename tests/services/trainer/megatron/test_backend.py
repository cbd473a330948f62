from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import distributed
from torch.nn.modules.module import register_module_forward_pre_hook
from transformers import AutoModelForCausalLM, PreTrainedModel

from headrace.algorithms.clipped import ClippedRatio
from headrace.algorithms.options import GrpoOptions
from headrace.services.models import load
from headrace.services.options import LoraOptions, PolicyOptions
from headrace.services.scoring.model import PackedModel
from headrace.services.trainer.backend import Backend, NonFiniteGradientError
from headrace.services.trainer.megatron.backend import MegatronBackend
from headrace.services.trainer.megatron.fit import policy_fault
from headrace.services.trainer.tensor_files import state_files
from headrace.services.trainer.torch_backend import TorchBackend
from tests.services.scoring.models import grouped_query_llama, naive_logprobs
from tests.services.trainer.batches import OPTIMIZER, ragged_samples
from tests.services.trainer.megatron.models import padded_llama, scaled_llama
from tests.services.trainer.megatron.worker import GRPO, MICRO_BATCH_TOKENS, TEMPERATURE, open_backend


@pytest.fixture(autouse=True)
def world(tmp_path: Path) -> Iterator[None]:
    """One rank; what it leaves is gone."""
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def opened(model: PreTrainedModel, folder: Path, dtype: str = "float64") -> MegatronBackend:
    model.save_pretrained(folder)
    return open_backend(str(folder), dtype, tp=1, pp=1)


def saved_by(backend: Backend, folder: Path) -> Path:
    folder.mkdir()
    backend.save(folder)
    return folder


def assert_same(found: Mapping[str, torch.Tensor], want: Mapping[str, torch.Tensor]) -> None:
    assert found.keys() == want.keys()
    for name, tensor in want.items():
        assert torch.equal(found[name], tensor), name


def test_a_scaled_rope_gives_the_log_probabilities_of_the_hugging_face_model(tmp_path: Path) -> None:
    samples, model = ragged_samples(3, 3, empty=(4,)), scaled_llama()
    with torch.no_grad():
        want = naive_logprobs(model, list(samples.prompt_ids), list(samples.response_ids), TEMPERATURE)
    ours = opened(model, tmp_path / "model")
    got = ours.before(samples.prompt_ids, samples.response_ids, samples.groups)["logprobs"]
    for ours_T, naive_T in zip(got, want, strict=True):
        np.testing.assert_allclose(ours_T, naive_T.numpy(), rtol=0, atol=1e-12)


def test_a_recipe_is_trained_and_saved_as_the_model_that_transformers_opens(tmp_path: Path) -> None:
    want = load("tiny-copier", dtype="float32", seed=3).model
    ours = open_backend("tiny-copier", "float32", tp=1, pp=1)
    assert_same(ours.weights(), {name: each.detach() for name, each in want.named_parameters()})
    saved = AutoModelForCausalLM.from_pretrained(saved_by(ours, tmp_path / "saved"))
    assert type(saved) is type(want)
    assert saved.config.eos_token_id == want.config.eos_token_id
    assert saved.lm_head.weight is saved.model.embed_tokens.weight
    assert_same(ours.weights(), {name: each.detach() for name, each in saved.named_parameters()})


def test_a_checkpoint_of_the_torch_back_end_goes_on_here(tmp_path: Path) -> None:
    samples, model = ragged_samples(3, 3), grouped_query_llama()
    theirs = TorchBackend(
        PackedModel(model, temperature=TEMPERATURE),
        OPTIMIZER,
        micro_batch_tokens=MICRO_BATCH_TOKENS,
        total_steps=None,
    )
    ours = opened(grouped_query_llama(), tmp_path / "model")
    theirs.accumulate(samples, GRPO)
    theirs.step(0)
    ours.load(saved_by(theirs, tmp_path / "saved"))
    for backend in (theirs, ours):
        backend.accumulate(samples, GRPO)
        backend.step(1)
    want = theirs.weights()
    for name, tensor in ours.weights().items():
        torch.testing.assert_close(tensor, want[name], rtol=0, atol=1e-10, msg=name)


def test_the_padding_token_learns_nothing_of_being_read_as_in_transformers(tmp_path: Path) -> None:
    samples = ragged_samples(3, 3)
    model = padded_llama(int(samples.prompt_ids[0][0]))
    ours = opened(model, tmp_path / "model")
    theirs = TorchBackend(
        PackedModel(model, temperature=TEMPERATURE),
        OPTIMIZER,
        micro_batch_tokens=MICRO_BATCH_TOKENS,
        total_steps=None,
    )
    norms = []
    for backend in (theirs, ours):
        backend.accumulate(samples, GRPO)
        norms.append(backend.step(0).grad_norm)
    assert norms[1] == pytest.approx(norms[0], rel=1e-10)


def test_bfloat16_is_moved_through_float32_copies_and_a_restored_one_goes_on_bit_for_bit(
    tmp_path: Path,
) -> None:
    samples = ragged_samples(3, 3)
    first = opened(grouped_query_llama(torch.bfloat16), tmp_path / "model", "bfloat16")
    start = first.weights()
    first.accumulate(samples, GRPO)
    first.step(0)
    weights, saved = first.weights(), saved_by(first, tmp_path / "saved")
    first.accumulate(samples, GRPO)
    first.step(1)
    end, end_state = first.weights(), state_files(saved_by(first, tmp_path / "end"))
    first.close()
    second = open_backend(str(tmp_path / "model"), "bfloat16", tp=1, pp=1)
    second.load(saved)
    second.accumulate(samples, GRPO)
    second.step(1)
    master = state_files(saved)["master/model.norm.weight"]
    assert master.dtype == torch.float32
    assert torch.equal(master.bfloat16(), weights["model.norm.weight"])
    assert 0.0 < (master - start["model.norm.weight"].float()).abs().max() < 2 * OPTIMIZER.lr
    assert_same(second.weights(), end)
    assert_same(state_files(saved_by(second, tmp_path / "again")), end_state)
    assert not torch.equal(end["model.embed_tokens.weight"], weights["model.embed_tokens.weight"])


def test_layers_that_are_computed_again_give_the_same_weights(tmp_path: Path) -> None:
    found: list[dict[str, torch.Tensor]] = []
    passes: list[int] = []

    def count(module: torch.nn.Module, *_: object) -> None:
        passes[-1] += type(module).__name__ == "TransformerLayer"

    grouped_query_llama().save_pretrained(tmp_path / "model")
    for recomputes in (False, True):
        ours = open_backend(str(tmp_path / "model"), "float64", tp=1, pp=1, recomputes=recomputes)
        passes.append(0)
        with register_module_forward_pre_hook(count):
            ours.accumulate(ragged_samples(2, 2), GRPO)
        ours.step(0)
        found.append(ours.weights())
        ours.close()
    assert_same(*found)
    assert passes[1] == 2 * passes[0]


def test_adapters_are_refused() -> None:
    policy = PolicyOptions(model="tiny-copier", lora=LoraOptions())
    assert policy_fault(policy) == (
        "backend: megatron trains no adapters (lora); leave lora out, or train with backend: torch"
    )


def test_a_gradient_that_is_not_finite_stops_the_step_by_name_and_keeps_the_weights(
    tmp_path: Path,
) -> None:
    samples = ragged_samples(1, 2)
    ours = opened(grouped_query_llama(), tmp_path / "model")
    start = ours.weights()
    ours.accumulate(replace(samples, advantages=np.array([np.inf, 1.0])), GRPO)
    with pytest.raises(NonFiniteGradientError, match=r"step 17: .* parameters \(model.embed_tokens.weight"):
        ours.step(17)
    assert_same(ours.weights(), start)
    ours.accumulate(samples, GRPO)
    assert not ours.step(18).skipped


def test_state_within_a_step_is_refused_and_discard_ends_the_step(tmp_path: Path) -> None:
    ours = opened(grouped_query_llama(), tmp_path / "model")
    start = ours.weights()
    assert ours.accumulate(ragged_samples(2, 2, masked=(0, 1, 2, 3)), GRPO) == {}
    ours.accumulate(ragged_samples(1, 2), GRPO)
    with pytest.raises(RuntimeError, match="right after step"):
        saved_by(ours, tmp_path / "within")
    ours.discard()
    assert set(state_files(saved_by(ours, tmp_path / "between"))) == {"rng/torch"}
    assert ours.step(0).skipped
    assert_same(ours.weights(), start)


def test_weights_of_another_model_are_refused_before_any_is_copied(tmp_path: Path) -> None:
    ours = opened(grouped_query_llama(), tmp_path / "model")
    start = ours.weights()
    other = {name: tensor + 1 for name, tensor in start.items()} | {"model.norm.weight": torch.zeros(3)}
    saved = saved_by(ours, tmp_path / "saved")
    save_file(other, saved / "model.safetensors")
    with pytest.raises(ValueError, match=r"model.norm.weight is \(3,\), not \(32,\)"):
        ours.load(saved)
    save_file({}, saved / "model.safetensors")
    with pytest.raises(ValueError, match="20 names differ, such as model"):
        ours.load(saved)
    assert_same(ours.weights(), start)


def test_a_loss_that_reads_a_value_head_is_refused(tmp_path: Path) -> None:
    class Critic(ClippedRatio):
        def outputs(self) -> tuple[str, ...]:
            return ("values",)

    with pytest.raises(ValueError, match="critic: node where it has one, or train with backend: torch"):
        opened(grouped_query_llama(), tmp_path / "model").accumulate(
            ragged_samples(1, 2), Critic(GrpoOptions())
        )


def test_a_process_trains_one_model_at_a_time_and_ranks_make_whole_copies_of_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tp 2 x pp 1 does not divide 1 processes; start a multiple of 2"):
        open_backend("tiny-copier", "float32", tp=2, pp=1)
    first = open_backend("tiny-copier", "float32", tp=1, pp=1)
    with pytest.raises(RuntimeError, match="trains a Megatron model already"):
        open_backend("tiny-copier", "float32", tp=1, pp=1)
    first.close()
    open_backend("tiny-copier", "float32", tp=1, pp=1)
