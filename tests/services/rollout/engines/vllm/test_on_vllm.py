"""What must hold of the engine on a real vLLM: run by `make vllm`."""

import copy
import json
import os
import select
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from headrace.services.models import load
from headrace.services.models.lora import published
from headrace.services.models.policy import load_policy
from headrace.services.options import LoraOptions, PolicyOptions, RolloutOptions, VllmOptions
from headrace.services.rollout.engines import build
from headrace.services.rollout.engines.base import Completion, EngineDied, Request, Sampling
from headrace.services.rollout.engines.torch_engine import TorchEngine

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]

EXACT = 1e-4
"""What log-probabilities may differ by."""
STOP = 1


def assert_whole(completion: Completion, longest: int = 12) -> None:
    ids = completion.token_ids.tolist()
    assert STOP not in ids[:-1]
    assert completion.finish_reason == ("stop" if ids[-1] == STOP else "length")
    assert len(ids) == longest or ids[-1] == STOP
    assert len(completion.logprobs) == len(completion.versions) == len(ids)


async def test_its_log_probabilities_are_those_of_a_forward_pass_as_the_torch_engines_are(
    model: PreTrainedModel, started: Any, decode: Any, requests: Any, collect: Any, plain_logprobs: Any
) -> None:
    asked: list[Request] = requests(groups=8, samples=4)
    sampling = Sampling(temperature=1.2, max_new_tokens=12, stop_token_ids=(STOP,))
    torch_engine = TorchEngine(copy.deepcopy(model), sampling)
    by_torch = await collect(torch_engine, asked)
    await torch_engine.close()
    by_vllm = decode(started(), asked)
    assert sorted(by_vllm) == [request.uid for request in asked]
    for request in asked:
        for completion in (by_vllm[request.uid], by_torch[request.uid]):
            assert_whole(completion)
            expected = plain_logprobs(model, request, completion, 1.2)
            assert completion.logprobs == pytest.approx(expected, abs=EXACT)
    assert {completion.finish_reason for completion in by_vllm.values()} == {"stop", "length"}


def test_a_sample_is_drawn_by_its_own_seed_whatever_is_drawn_beside_it(
    started: Any, decode: Any, requests: Any
) -> None:
    asked: list[Request] = requests(groups=6, samples=2)
    decoder = started(max_concurrent=8)
    together = decode(decoder, asked)
    again = decode(decoder, asked[3:4])
    assert again[3].token_ids.tolist() == together[3].token_ids.tolist()
    assert len({tuple(completion.token_ids.tolist()) for completion in together.values()}) > 8


def test_prompts_beyond_what_a_step_reads_wait_for_the_next_one(
    model: PreTrainedModel, started: Any, decode: Any, plain_logprobs: Any
) -> None:
    draws = np.random.default_rng(0)
    prompts = [draws.integers(3, 13, size=150).astype(np.int32) for _ in range(20)]
    asked = [Request(uid=uid, group=uid, prompt_ids=prompt, seed=uid) for uid, prompt in enumerate(prompts)]
    for uid, completion in decode(started(), asked).items():
        assert_whole(completion)
        expected = plain_logprobs(model, asked[uid], completion, 1.2)
        assert completion.logprobs == pytest.approx(expected, abs=EXACT)


def test_a_swap_keeps_what_is_cached_and_each_token_is_of_the_version_that_it_carries(
    model: PreTrainedModel,
    started: Any,
    decode: Any,
    requests: Any,
    plain_logprobs: Any,
    other_weights: Any,
    with_kept_cache: Any,
) -> None:
    asked: list[Request] = requests(groups=4, samples=2)
    new = copy.deepcopy(model)
    new.load_state_dict(other_weights(model), strict=False)
    decoder = started()
    early = decode(decoder, asked, steps=4)
    decoder.use_weights(1, other_weights(model))
    late = decode(decoder)
    assert sorted([*early, *late]) == [request.uid for request in asked] and len(late) > 3
    for request in [request for request in asked if request.uid in late]:
        completion = late[request.uid]
        assert_whole(completion)
        assert completion.versions.tolist() == [0] * 4 + [1] * (len(completion.token_ids) - 4)
        before = plain_logprobs(model, request, completion, 1.2)[:4]
        after = with_kept_cache(model, new, request, completion, before=4, temperature=1.2)
        assert completion.logprobs == pytest.approx([*before, *after], abs=EXACT)


def test_interrupted_samples_go_on_with_a_cache_of_the_new_weights(
    model: PreTrainedModel, started: Any, decode: Any, requests: Any, plain_logprobs: Any, other_weights: Any
) -> None:
    asked: list[Request] = requests(groups=4, samples=2)
    new = copy.deepcopy(model)
    new.load_state_dict(other_weights(model), strict=False)
    decoder = started()
    decode(decoder, asked, steps=4)
    decoder.interrupt(keep=True)
    decoder.use_weights(1, other_weights(model))
    late = decode(decoder)
    assert len(late) > 3
    for request in [request for request in asked if request.uid in late]:
        completion = late[request.uid]
        assert_whole(completion)
        assert completion.versions.tolist() == [0] * 4 + [1] * (len(completion.token_ids) - 4)
        before = plain_logprobs(model, request, completion, 1.2)[:4]
        after = plain_logprobs(new, request, completion, 1.2)[4:]
        assert completion.logprobs == pytest.approx([*before, *after], abs=EXACT)


def test_a_sample_that_begins_after_a_swap_never_reads_a_prefix_of_older_weights(
    model: PreTrainedModel, started: Any, decode: Any, plain_logprobs: Any, other_weights: Any
) -> None:
    prompt = np.random.default_rng(0).integers(3, 13, size=300).astype(np.int32)
    *early, late = (Request(uid=uid, group=0, prompt_ids=prompt, seed=uid) for uid in range(9))
    new = copy.deepcopy(model)
    new.load_state_dict(other_weights(model), strict=False)
    decoder = started(max_new_tokens=200)
    decode(decoder, early, steps=4)
    assert decoder.running > 0
    decoder.use_weights(1, other_weights(model))
    completion = decode(decoder, [late])[late.uid]
    assert set(completion.versions.tolist()) == {1}
    expected = plain_logprobs(new, late, completion, 1.2)
    assert completion.logprobs == pytest.approx(expected, abs=EXACT)


def test_loaded_weights_equal_a_model_that_had_them_from_the_start(
    model: PreTrainedModel, started: Any, decode: Any, requests: Any, other_weights: Any
) -> None:
    decoder = started()
    first = decode(decoder, requests())
    decoder.use_weights(1, other_weights(model))
    between = decode(decoder, requests())
    own = {name: tensor for name, tensor in model.state_dict().items() if name != "model.embed_tokens.weight"}
    decoder.use_weights(2, own)
    back = decode(decoder, requests())
    for uid, completion in back.items():
        assert completion.token_ids.tolist() == first[uid].token_ids.tolist()
        assert completion.logprobs.tolist() == first[uid].logprobs.tolist()
        assert completion.versions.tolist() == [2] * len(completion.token_ids)
    assert any(between[uid].token_ids.tolist() != first[uid].token_ids.tolist() for uid in first)


def test_a_generation_goes_on_from_the_tokens_that_an_earlier_lease_left(
    model: PreTrainedModel, started: Any, decode: Any, plain_logprobs: Any
) -> None:
    carry = {"token_ids": [4, 5, 6], "logprobs": [-1.5, -2.5, -3.5], "versions": [7, 7, 8]}
    prompt = np.array([3, 4, 2], dtype=np.int32)
    asked = [Request(uid=uid, group=0, prompt_ids=prompt, seed=uid, carry=carry) for uid in range(4)]
    for uid, completion in decode(started(), asked).items():
        assert_whole(completion)
        assert completion.token_ids.tolist()[:3] == [4, 5, 6]
        assert completion.logprobs.tolist()[:3] == [-1.5, -2.5, -3.5]
        assert completion.versions.tolist() == [7, 7, 8] + [0] * (len(completion.token_ids) - 3)
        expected = plain_logprobs(model, asked[uid], completion, 1.2)[3:]
        assert completion.logprobs[3:] == pytest.approx(expected, abs=EXACT)


async def test_behind_the_loop_it_loads_cancels_and_refuses_after_a_load_that_failed(
    model: PreTrainedModel, requests: Any, collect: Any, other_weights: Any, monkeypatch: Any
) -> None:
    pytest.importorskip("vllm")
    options = RolloutOptions(engine="vllm", max_new_tokens=500)
    engine = await build(options, PolicyOptions(model="tiny-copier"), seed=3, version=-1)
    await engine.load(0, other_weights(model))
    assert engine.version == 0
    found = await collect(engine, requests(groups=2))
    assert {version for each in found.values() for version in each.versions.tolist()} == {0}
    generated = engine.generate(requests(groups=4, samples=1))
    await anext(generated)
    await generated.aclose()
    await engine.load(1, other_weights(model))
    assert engine.stats()["running"] == engine.stats()["waiting"] == 0
    monkeypatch.setattr(
        "headrace.services.rollout.engines.vllm.worker.ReloadingWorker.headrace_reload", lambda *_: 1
    )
    with pytest.raises(EngineDied, match=r"hold the versions \[1\] after a load of 2"):
        await engine.load(2, other_weights(model))
    with pytest.raises(EngineDied):
        await collect(engine, requests())
    await engine.close()


def test_two_ranks_in_processes_of_their_own_share_the_model_and_load_from_one_file(
    model: PreTrainedModel, started: Any, decode: Any, requests: Any, plain_logprobs: Any, other_weights: Any
) -> None:
    asked: list[Request] = requests(groups=3, samples=2)
    new = copy.deepcopy(model)
    new.load_state_dict(other_weights(model), strict=False)
    decoder = started(vllm=VllmOptions(tensor_parallel=2))
    for version, served in enumerate((model, new)):
        for uid, completion in decode(decoder, asked).items():
            assert set(completion.versions.tolist()) == {version}
            expected = plain_logprobs(served, asked[uid], completion, 1.2)
            assert completion.logprobs == pytest.approx(expected, abs=EXACT)
        decoder.use_weights(version + 1, other_weights(model))


def test_ranks_end_with_a_replica_that_is_killed() -> None:
    pytest.importorskip("vllm")
    command = [sys.executable, "-m", "tests.services.rollout.engines.vllm.two_ranks"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as replica:
        assert replica.stdout is not None
        try:
            told = next(line for line in replica.stdout if line.startswith("["))
            watched = [os.pidfd_open(pid) for pid in json.loads(told)]
        finally:
            replica.kill()
    assert len(watched) == 2
    for rank in watched:
        assert select.select([rank], [], [], 120)[0]
        os.close(rank)


def test_adapters_are_served_with_the_log_probabilities_of_a_forward_pass_by_peft(
    started: Any, decode: Any, requests: Any, plain_logprobs: Any
) -> None:
    asked: list[Request] = requests(groups=4, samples=2)
    lora = LoraOptions(rank=4)
    trained = load_policy(PolicyOptions(model="tiny-copier", lora=lora), seed=3).model
    decoder = started(lora=lora)
    draws = torch.Generator().manual_seed(0)
    for version in (1, 2):
        for name, parameter in trained.named_parameters():
            if ".lora_B." in name:
                parameter.data.copy_(0.2 * torch.randn(parameter.shape, generator=draws))
        adapters = published(dict(trained.state_dict()))
        decoder.check_weights(adapters)
        decoder.use_weights(version, adapters)
        for uid, completion in decode(decoder, asked).items():
            assert set(completion.versions.tolist()) == {version}
            expected = plain_logprobs(trained, asked[uid], completion, 1.2)
            assert completion.logprobs == pytest.approx(expected, abs=EXACT)


async def test_a_published_model_is_served_from_its_folder_with_the_same_log_probabilities(
    collect: Any, plain_logprobs: Any
) -> None:
    pytest.importorskip("vllm")
    name = "smollm2-135m-instruct"
    loaded = load(name, dtype="float32", seed=0)
    prompt = loaded.tokenizer("Water runs to the mill because")["input_ids"]
    asked = [
        Request(uid=uid, group=0, prompt_ids=np.array(prompt, dtype=np.int32), seed=uid) for uid in range(4)
    ]
    options = RolloutOptions(engine="vllm", temperature=1.2, max_new_tokens=24, max_concurrent=4)
    engine = await build(options, PolicyOptions(model=name), seed=0)
    found = await collect(engine, asked)
    await engine.close()
    for request in asked:
        completion = found[request.uid]
        expected = plain_logprobs(loaded.model, request, completion, 1.2)
        assert completion.logprobs == pytest.approx(expected, abs=EXACT)
