import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import DynamicCache, LlamaForCausalLM

from headrace.services.faults import damage
from headrace.services.rollout.engines.base import (
    Completion,
    EngineDied,
    OverNewWeights,
    Request,
    Sampling,
)
from headrace.services.rollout.engines.torch_engine import TorchEngine
from headrace.services.weights import WeightStore
from headrace.services.weights.version import Version

SAMPLING = Sampling(max_new_tokens=8)
AT_FORWARD = 4
"""The prefill and three decode steps."""


def other_weights(model: LlamaForCausalLM) -> dict[str, torch.Tensor]:
    draws = torch.Generator().manual_seed(1)
    return {name: tensor + 0.1 * torch.randn(tensor.shape, generator=draws) for name, tensor in
            model.state_dict().items() if name != "lm_head.weight"}  # fmt: skip


async def generate_across_a_load(
    engine: TorchEngine, model: LlamaForCausalLM, requests: list[Request], then: Callable[[], Awaitable[Any]]
) -> dict[int, Completion]:
    """Asks for `then` during forward pass `AT_FORWARD`, from within the worker thread."""
    loop = asyncio.get_running_loop()
    passes = 0
    asked: list[asyncio.Task[Any]] = []

    async def ask() -> None:
        asked.append(asyncio.create_task(then()))  # pyright: ignore[reportArgumentType]
        await asyncio.sleep(0)

    def hook(*_: Any) -> None:
        nonlocal passes
        passes += 1
        if passes == AT_FORWARD:
            asyncio.run_coroutine_threadsafe(ask(), loop).result()

    model.model.register_forward_pre_hook(hook)
    completions = {c.uid: c async for batch in engine.generate(requests) for c in batch}
    await asked[0]
    return completions


@pytest.mark.parametrize(
    ("over_new_weights", "versions"),
    [
        ("swap", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("finish", [0] * 8),
        ("abort_keep", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("abort_restart", [1] * 8),
    ],
)
async def test_every_token_carries_the_version_that_made_it(
    llama: LlamaForCausalLM, requests: Any, over_new_weights: OverNewWeights, versions: list[int]
) -> None:
    engine = TorchEngine(llama, SAMPLING, over_new_weights=over_new_weights)
    weights = other_weights(llama)
    completions = await generate_across_a_load(engine, llama, requests(), lambda: engine.load(1, weights))
    assert engine.version == 1
    await engine.close()
    assert [completion.versions.tolist() for completion in completions.values()] == [versions] * 20


async def test_swapped_weights_make_the_tokens_that_follow(
    llama: LlamaForCausalLM, requests: Any, plain_logprobs: Any
) -> None:
    plain = copy.deepcopy(llama)
    engine = TorchEngine(llama, SAMPLING)
    weights = other_weights(llama)
    completions = await generate_across_a_load(engine, llama, requests(), lambda: engine.load(1, weights))
    await engine.close()
    for request in requests():
        completion = completions[request.uid]
        before = plain_logprobs(plain, request, completion, 1.0)
        assert completion.logprobs[:4] == pytest.approx(before[:4], abs=1e-5)
        assert abs(completion.logprobs[4:] - before[4:]).max() > 1e-3


async def test_a_token_behind_a_swap_is_of_the_new_weights_over_the_old_cache(
    llama: LlamaForCausalLM, requests: Any
) -> None:
    plain = copy.deepcopy(llama)
    engine = TorchEngine(llama, SAMPLING)
    weights = other_weights(llama)
    completions = await generate_across_a_load(engine, llama, requests(), lambda: engine.load(1, weights))
    await engine.close()
    for request in requests():
        completion = completions[request.uid]
        expected = logprobs_across_a_swap(plain, llama, request, completion, old=4)
        assert completion.logprobs == pytest.approx(expected, abs=1e-5)


@torch.inference_mode()
def logprobs_across_a_swap(
    old_model: LlamaForCausalLM,
    new_model: LlamaForCausalLM,
    request: Request,
    completion: Completion,
    *,
    old: int,
) -> list[float]:
    """Of an answer's tokens: `old` ones by one model, the rest by the other, going on with its cache."""
    answer = completion.token_ids.tolist()
    cache = DynamicCache(config=old_model.config)
    ids, found = request.prompt_ids.tolist(), []
    for place, token in enumerate(answer):
        model = old_model if place < old else new_model
        logits = model(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True).logits[0, -1]
        found.append(float(torch.log_softmax(logits, dim=-1)[token]))
        ids = [token]
    return found


async def test_samples_that_keep_their_tokens_go_on_as_the_new_weights_see_them(
    llama: LlamaForCausalLM, requests: Any, plain_logprobs: Any
) -> None:
    plain = copy.deepcopy(llama)
    engine = TorchEngine(llama, SAMPLING, max_concurrent=6, over_new_weights="abort_keep")
    weights = other_weights(llama)
    completions = await generate_across_a_load(engine, llama, requests(), lambda: engine.load(1, weights))
    assert engine.stats()["discarded_tokens"] == 0
    await engine.close()
    for request in requests():
        completion = completions[request.uid]
        old = completion.versions.tolist().count(0)
        assert old == (4 if request.uid < 6 else 0)
        before = plain_logprobs(plain, request, completion, 1.0)
        after = plain_logprobs(llama, request, completion, 1.0)
        assert completion.logprobs[:old] == pytest.approx(before[:old], abs=1e-5)
        assert completion.logprobs[old:] == pytest.approx(after[old:], abs=1e-5)


async def test_samples_that_begin_anew_are_those_of_the_new_weights_from_the_start(
    llama: LlamaForCausalLM, requests: Any, collect: Any
) -> None:
    fresh = copy.deepcopy(llama)
    weights = other_weights(llama)
    fresh.load_state_dict(weights, strict=False)
    engine = TorchEngine(llama, SAMPLING, max_concurrent=6, over_new_weights="abort_restart")
    completions = await generate_across_a_load(engine, llama, requests(), lambda: engine.load(1, weights))
    assert engine.stats()["discarded_tokens"] == 6 * 4
    await engine.close()
    other = TorchEngine(fresh, SAMPLING)
    expected = await collect(other, requests())
    await other.close()
    for uid, completion in completions.items():
        assert completion.token_ids.tolist() == expected[uid].token_ids.tolist()
        assert completion.logprobs == pytest.approx(expected[uid].logprobs, abs=1e-5)
        assert completion.versions.tolist() == [1] * 8


async def test_with_finish_nothing_starts_until_the_new_weights_are_in(
    llama: LlamaForCausalLM, requests: Any
) -> None:
    engine = TorchEngine(llama, SAMPLING, max_concurrent=6, over_new_weights="finish")
    weights = other_weights(llama)
    completions = await generate_across_a_load(
        engine, llama, requests(groups=2), lambda: engine.load(1, weights)
    )
    await engine.close()
    versions = {uid: completion.versions.tolist() for uid, completion in completions.items()}
    assert versions == {uid: [0 if uid < 6 else 1] * 8 for uid in range(8)}


async def test_a_sample_that_starts_after_a_swap_is_of_the_new_version_alone(
    llama: LlamaForCausalLM, requests: Any, plain_logprobs: Any
) -> None:
    engine = TorchEngine(llama, SAMPLING, max_concurrent=6)
    weights = other_weights(llama)
    completions = await generate_across_a_load(
        engine, llama, requests(groups=2), lambda: engine.load(1, weights)
    )
    await engine.close()
    for request in requests(groups=2)[6:]:
        completion = completions[request.uid]
        assert completion.versions.tolist() == [1] * 8
        expected = plain_logprobs(llama, request, completion, 1.0)
        assert completion.logprobs == pytest.approx(expected, abs=1e-5)


async def test_loaded_weights_equal_a_model_that_had_them_from_the_start(
    llama: LlamaForCausalLM, requests: Any, collect: Any
) -> None:
    weights = other_weights(llama)
    fresh = copy.deepcopy(llama)
    fresh.load_state_dict(weights, strict=False)
    engine, other = TorchEngine(llama, SAMPLING), TorchEngine(fresh, SAMPLING)
    await engine.load(7, weights)
    assert engine.version == 7
    loaded, expected = await collect(engine, requests()), await collect(other, requests())
    await engine.close()
    await other.close()
    for uid, completion in loaded.items():
        assert completion.token_ids.tolist() == expected[uid].token_ids.tolist()
        assert completion.logprobs.tolist() == expected[uid].logprobs.tolist()
        assert completion.versions.tolist() == [7] * 8


def published(store: WeightStore, version: int, weights: Mapping[str, torch.Tensor]) -> Version:
    return store.take("actor", version, store.write("actor", version, weights))


async def test_tokens_are_those_of_the_published_version_whatever_a_trainer_writes_meanwhile(
    llama: LlamaForCausalLM, requests: Any, plain_logprobs: Any, tmp_path: Path
) -> None:
    """Version 1 is loaded at the fourth pass, and four more are written right after."""
    trainer, own = WeightStore(tmp_path), WeightStore(tmp_path)
    engine, later = TorchEngine(llama, SAMPLING, over_new_weights="abort_keep"), other_weights(llama)
    old, new = copy.deepcopy(llama), copy.deepcopy(llama)
    new.load_state_dict(later, strict=False)
    await engine.load(0, published(own, 0, copy.deepcopy(old.state_dict())))

    async def then() -> None:
        await engine.load(1, published(own, 1, later))
        for version in range(2, 6):
            trainer.write("actor", version, {name: tensor * version for name, tensor in later.items()})

    completions = await generate_across_a_load(engine, llama, requests(), then)
    await engine.close()
    for request in requests():
        completion = completions[request.uid]
        assert completion.versions.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
        expected = [*plain_logprobs(old, request, completion, 1.0)[:4]]
        expected += [*plain_logprobs(new, request, completion, 1.0)[4:]]
        assert completion.logprobs == pytest.approx(expected, abs=1e-5)


async def test_an_engine_lets_go_of_a_version_with_the_load_of_the_next(
    llama: LlamaForCausalLM, tmp_path: Path
) -> None:
    store, own, files = WeightStore(tmp_path), WeightStore(tmp_path), []
    engine = TorchEngine(llama, SAMPLING)
    for version in range(6):
        checksum = store.write("actor", version, other_weights(llama))
        files.append((tmp_path / "actor" / f"{version:08d}.safetensors").stat().st_ino)
        await engine.load(version, own.take("actor", version, checksum))
    await engine.close()
    assert files[:3] == files[3:]
    assert len(set(files)) == 3


async def test_an_engine_whose_version_is_not_what_was_published_dies_and_serves_no_more(
    llama: LlamaForCausalLM, requests: Any, collect: Any, tmp_path: Path
) -> None:
    store, engine = WeightStore(tmp_path), TorchEngine(llama, SAMPLING)
    checksum = store.write("actor", 1, other_weights(llama))
    damage(store.folder("actor").path(1))
    with pytest.raises(EngineDied, match=r"decoding failed: WeightsError: .* was published"):
        await engine.load(1, store.take("actor", 1, checksum))
    with pytest.raises(EngineDied, match="was published"):
        await collect(engine, requests())
    await engine.close()
    assert engine.version == 0


async def test_a_load_that_went_well_hears_of_the_death_by_the_one_behind_it(
    llama: LlamaForCausalLM, tmp_path: Path
) -> None:
    """Both wait as the engine turns, and the second is not what was published."""
    store, engine = WeightStore(tmp_path), TorchEngine(llama, SAMPLING)
    first, second = (published(store, version, other_weights(llama)) for version in (1, 2))
    damage(store.folder("actor").path(2))
    async with asyncio.timeout(60):
        found = await asyncio.gather(engine.load(1, first), engine.load(2, second), return_exceptions=True)
    assert [type(error) for error in found] == [EngineDied, EngineDied]
    await engine.close()
    assert engine.version == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("model.norm.weight"), "missing: model.norm.weight"),
        (lambda w: w.update(extra=torch.zeros(1)), "unexpected: extra"),
        (
            lambda w: w.update({"model.norm.weight": torch.zeros(3)}),
            r"unfit: model.norm.weight: float32 \[3\] where the model has float32 \[64\]",
        ),
        (
            lambda w: w.update({"model.norm.weight": torch.zeros(64, dtype=torch.float64)}),
            r"float64 \[64\] where the model has float32 \[64\]",
        ),
    ],
)
async def test_weights_that_do_not_fit_are_refused_by_name_and_nothing_changes(
    llama: LlamaForCausalLM, change: Callable[[dict[str, torch.Tensor]], Any], message: str
) -> None:
    engine = TorchEngine(llama, SAMPLING)
    before = {name: tensor.clone() for name, tensor in llama.state_dict().items()}
    weights = other_weights(llama)
    change(weights)
    with pytest.raises(ValueError, match=message):
        await engine.load(1, weights)
    await engine.close()
    assert engine.version == 0
    assert all(torch.equal(before[name], tensor) for name, tensor in llama.state_dict().items())
