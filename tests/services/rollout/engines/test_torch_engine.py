import asyncio
import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

from headrace.services.rollout.engines.base import Carry, Completion, EngineDied, Request, Sampling
from headrace.services.rollout.engines.torch_engine import TorchEngine

Requests = Callable[..., list[Request]]
Collect = Callable[..., Any]

SAMPLING = Sampling(temperature=1.0, max_new_tokens=12, stop_token_ids=(1,))
NEVER_STOPS = Sampling(temperature=1.0, max_new_tokens=8)


def ids(completions: dict[int, Completion]) -> dict[int, list[int]]:
    return {uid: completion.token_ids.tolist() for uid, completion in completions.items()}


@pytest.mark.parametrize("temperature", [1.0, 0.5])
async def test_logprobs_equal_a_plain_forward_pass(
    llama: LlamaForCausalLM, requests: Requests, collect: Collect, plain_logprobs: Any, temperature: float
) -> None:
    plain = copy.deepcopy(llama)
    engine = TorchEngine(llama, Sampling(temperature=temperature, max_new_tokens=12, stop_token_ids=(1,)))
    completions = await collect(engine, requests())
    await engine.close()
    assert len(completions) == 20
    for request in requests():
        completion = completions[request.uid]
        expected = plain_logprobs(plain, request, completion, temperature)
        np.testing.assert_allclose(completion.logprobs, expected, rtol=0.0, atol=1e-5)
        assert completion.logprobs.dtype == np.float32


async def test_a_double_precision_model_gives_double_precision(
    llama: LlamaForCausalLM, requests: Requests, collect: Collect, plain_logprobs: Any
) -> None:
    plain = copy.deepcopy(llama).double()
    engine = TorchEngine(llama.double(), SAMPLING)
    completions = await collect(engine, requests())
    await engine.close()
    for request in requests():
        expected = plain_logprobs(plain, request, completions[request.uid], 1.0)
        np.testing.assert_allclose(completions[request.uid].logprobs, expected, rtol=0.0, atol=1e-12)


async def test_what_is_drawn_does_not_depend_on_the_batch(
    llama: LlamaForCausalLM, requests: Requests, collect: Collect
) -> None:
    whole = TorchEngine(copy.deepcopy(llama), SAMPLING)
    narrow = TorchEngine(copy.deepcopy(llama), SAMPLING, max_concurrent=3)
    single = TorchEngine(copy.deepcopy(llama), SAMPLING)
    together = await collect(whole, requests())
    in_turn = await collect(narrow, requests())
    alone = {uid: c for request in requests() for uid, c in (await collect(single, [request])).items()}
    for engine in (whole, narrow, single):
        await engine.close()
    assert ids(together) == ids(in_turn) == ids(alone)
    assert len({tuple(answer) for answer in ids(together).values()}) > 10
    for uid, completion in together.items():
        np.testing.assert_allclose(completion.logprobs, in_turn[uid].logprobs, rtol=0.0, atol=1e-5)
        np.testing.assert_allclose(completion.logprobs, alone[uid].logprobs, rtol=0.0, atol=1e-5)


async def test_drawn_tokens_follow_the_distribution(llama: LlamaForCausalLM, collect: Collect) -> None:
    prompt = np.array([4, 9, 2], dtype=np.int32)
    engine = TorchEngine(llama, Sampling(temperature=1.0, max_new_tokens=1), max_concurrent=1000)
    completions = await collect(
        engine, [Request(uid=i, group=0, prompt_ids=prompt, seed=i) for i in range(4000)]
    )
    await engine.close()
    counts = np.bincount([c.token_ids[0] for c in completions.values()], minlength=13)
    with torch.inference_mode():
        logits = llama(input_ids=torch.tensor(prompt)[None].long()).logits[0, -1]
    expected = torch.softmax(logits, -1).numpy() * 4000
    spread = np.sqrt(expected * (1 - expected / 4000))
    assert (np.abs(counts - expected) < 4.5 * spread + 1).all()


async def test_a_group_is_prefilled_once(
    llama: LlamaForCausalLM, requests: Requests, collect: Collect
) -> None:
    prompts = {request.group: len(request.prompt_ids) for request in requests()}
    for max_concurrent in (256, 3):
        engine = TorchEngine(copy.deepcopy(llama), SAMPLING, max_concurrent=max_concurrent)
        await collect(engine, requests())
        assert engine.stats()["prefill_tokens"] == sum(prompts.values())
        await engine.close()


async def test_an_answer_ends_with_its_stop_token_or_at_the_limit(
    llama: LlamaForCausalLM, requests: Requests, collect: Collect
) -> None:
    engine = TorchEngine(llama, Sampling(max_new_tokens=6, stop_token_ids=(1, 5)))
    completions = await collect(engine, requests(groups=8))
    await engine.close()
    assert {c.finish_reason for c in completions.values()} == {"stop", "length"}
    for completion in completions.values():
        answer = completion.token_ids.tolist()
        assert not {1, 5} & set(answer[:-1])
        assert (answer[-1] in (1, 5)) == (completion.finish_reason == "stop")
        assert len(answer) == 6 or completion.finish_reason == "stop"
        assert len(answer) == len(completion.logprobs) == len(completion.versions)


async def test_groups_come_out_whole(llama: LlamaForCausalLM, requests: Requests) -> None:
    engine = TorchEngine(llama, SAMPLING, max_concurrent=6)
    seen: list[int] = []
    async for batch in engine.generate(requests()):
        groups = [completion.uid // 4 for completion in batch]
        assert all(groups.count(group) == 4 for group in groups)
        seen.extend(sorted(set(groups)))
    await engine.close()
    assert sorted(seen) == [0, 1, 2, 3, 4]


async def test_a_resumed_sample_equals_an_uninterrupted_one(
    llama: LlamaForCausalLM, requests: Requests, collect: Collect
) -> None:
    engine = TorchEngine(llama, NEVER_STOPS, version=4)
    whole = await collect(engine, requests())
    resumed = [
        Request(
            uid=r.uid,
            group=r.group,
            prompt_ids=r.prompt_ids,
            seed=r.seed,
            carry={
                "token_ids": whole[r.uid].token_ids[: r.uid % 9],
                "logprobs": whole[r.uid].logprobs[: r.uid % 9],
                "versions": [3] * (r.uid % 9),
            },
        )
        for r in requests()
    ]
    again = await collect(engine, resumed)
    await engine.close()
    assert ids(again) == ids(whole)
    for uid, completion in again.items():
        np.testing.assert_allclose(completion.logprobs, whole[uid].logprobs, rtol=0.0, atol=1e-5)
        assert completion.versions.tolist() == [3] * (uid % 9) + [4] * (8 - uid % 9)


async def test_a_carry_that_is_whole_finishes_at_once(llama: LlamaForCausalLM, collect: Collect) -> None:
    engine = TorchEngine(llama, SAMPLING)
    carry = {"token_ids": [7, 1], "logprobs": [-0.5, -0.25], "versions": [2, 3]}
    completions = await collect(
        engine, [Request(uid=9, group=0, prompt_ids=np.array([4]), seed=0, carry=carry)]
    )
    assert engine.stats()["prefill_tokens"] == 0
    await engine.close()
    assert completions[9].token_ids.tolist() == [7, 1]
    assert completions[9].logprobs.tolist() == [-0.5, -0.25]
    assert completions[9].versions.tolist() == [2, 3]
    assert completions[9].finish_reason == "stop"


async def test_a_cancelled_call_frees_its_slots(
    llama: LlamaForCausalLM, requests: Requests, collect: Collect
) -> None:
    expected = await collect(TorchEngine(copy.deepcopy(llama), NEVER_STOPS), requests())
    engine = TorchEngine(llama, NEVER_STOPS, max_concurrent=6)
    abandoned = engine.generate(requests())
    await anext(abandoned)
    await abandoned.aclose()  # pyright: ignore[reportAttributeAccessIssue]
    assert ids(await collect(engine, requests())) == ids(expected)
    stats = engine.stats()
    await engine.close()
    assert (stats["running"], stats["waiting"]) == (0, 0)
    assert stats["generated_tokens"] < 2 * 20 * 8


async def test_calls_share_the_engine(llama: LlamaForCausalLM, requests: Requests, collect: Collect) -> None:
    engine = TorchEngine(llama, SAMPLING, max_concurrent=8)
    first, second = await asyncio.gather(
        collect(engine, requests()), collect(engine, requests(first_uid=100))
    )
    await engine.close()
    assert {uid + 100: answer for uid, answer in ids(first).items()} == ids(second)


async def test_an_error_in_a_step_reaches_every_call_and_ends_the_engine(
    llama: LlamaForCausalLM, requests: Requests, collect: Collect
) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError("no room")

    llama.model.layers[1].register_forward_pre_hook(fail)
    engine = TorchEngine(llama, SAMPLING)
    outcomes = await asyncio.gather(
        collect(engine, requests()), collect(engine, requests()), return_exceptions=True
    )
    for outcome in outcomes:
        assert isinstance(outcome, EngineDied)
        assert str(outcome) == "decoding failed: MemoryError: no room"
        assert isinstance(outcome.__cause__, MemoryError)
    with pytest.raises(EngineDied, match="no room"):
        await collect(engine, requests())
    with pytest.raises(EngineDied, match="no room"):
        await engine.load(1, llama.state_dict())
    await engine.close()


async def test_closing_fails_what_waits(llama: LlamaForCausalLM, requests: Requests) -> None:
    engine = TorchEngine(llama, NEVER_STOPS, max_concurrent=1)
    stream = engine.generate(requests())
    await anext(stream)
    await engine.close()
    with pytest.raises(EngineDied, match="closed"):
        await anext(stream)


@pytest.mark.parametrize(
    ("request_of", "message"),
    [
        ({"prompt_ids": np.array([], dtype=np.int32)}, "one or more token ids from 0 to 12"),
        ({"prompt_ids": np.array([13])}, r"got \[13\]"),
        (
            {"prompt_ids": np.zeros(60, dtype=np.int32)},
            "60 prompt tokens and 8 new ones exceed the model's 64",
        ),
        ({"carry": {"token_ids": [1], "logprobs": [], "versions": [0]}}, "carry differ in length"),
    ],
)
async def test_a_request_that_cannot_be_served_is_refused_at_the_door(
    llama: LlamaForCausalLM, collect: Collect, request_of: dict[str, Any], message: str
) -> None:
    engine = TorchEngine(llama, NEVER_STOPS)
    fields: dict[str, Any] = {"uid": 3, "group": 0, "prompt_ids": np.array([4]), "seed": 0, **request_of}
    with pytest.raises(ValueError, match=message):
        await collect(engine, [Request(**fields)])
    fine = await collect(engine, [Request(uid=4, group=0, prompt_ids=np.array([4]), seed=0)])
    assert len(fine[4].token_ids) == 8
    await engine.close()


def test_sampling_that_draws_nothing_is_refused(llama: LlamaForCausalLM) -> None:
    with pytest.raises(ValueError, match="temperature is 0; it must be above 0"):
        TorchEngine(llama, Sampling(temperature=0))
    with pytest.raises(ValueError, match="max_new_tokens is 0"):
        TorchEngine(llama, Sampling(max_new_tokens=0))


async def test_group_by_group_no_bit_of_an_answer_depends_on_the_others(
    llama: LlamaForCausalLM, requests: Requests, collect: Collect
) -> None:
    everybody = requests()
    group = everybody[-1].group
    of_group = [request for request in everybody if request.group == group]
    together = TorchEngine(copy.deepcopy(llama), SAMPLING, group_by_group=True)
    alone = TorchEngine(copy.deepcopy(llama), SAMPLING, group_by_group=True)
    among_all = await collect(together, everybody)
    by_itself = await collect(alone, of_group)
    await together.close()
    await alone.close()
    assert len(among_all) == len(everybody) > len(of_group) == len(by_itself)
    for uid, completion in by_itself.items():
        assert completion.token_ids.tolist() == among_all[uid].token_ids.tolist()
        assert completion.logprobs.tobytes() == among_all[uid].logprobs.tobytes()


async def test_closed_early_it_leaves_what_it_has_and_another_goes_on_from_there(
    llama: LlamaForCausalLM, requests: Requests, collect: Collect
) -> None:
    whole = await collect(TorchEngine(copy.deepcopy(llama), SAMPLING), requests())
    first = TorchEngine(copy.deepcopy(llama), SAMPLING, max_concurrent=6, version=2)
    left: dict[int, Carry] = {}
    generated = first.generate(requests(), left)
    taken = {completion.uid for completion in await anext(generated)}
    await generated.aclose()
    assert first.stats()["running"] == first.stats()["waiting"] == 0
    await first.close()
    assert left and not taken & left.keys()
    resumed = [replace(r, carry=left.get(r.uid)) for r in requests() if r.uid not in taken]
    again = await collect(TorchEngine(copy.deepcopy(llama), SAMPLING, version=3), resumed)
    assert ids(again) == {uid: made for uid, made in ids(whole).items() if uid not in taken}
    for uid, completion in again.items():
        before = len(left[uid]["token_ids"]) if uid in left else 0
        assert completion.versions.tolist() == [2] * before + [3] * (len(completion.versions) - before)


async def test_a_dead_engine_leaves_nothing_and_keeps_nobody_waiting(
    llama: LlamaForCausalLM, requests: Requests
) -> None:
    engine = TorchEngine(llama, NEVER_STOPS, max_concurrent=1)
    left: dict[int, Carry] = {}
    generated = engine.generate(requests(), left)
    waiting = asyncio.ensure_future(anext(generated))
    await asyncio.sleep(0)
    await engine.close()
    with pytest.raises(EngineDied):
        await waiting
    await generated.aclose()
    assert left == {}
