"""Versions, lines and orders of the decoder, on a vLLM without a model."""

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
import pytest

from headrace.services.rollout.engines.base import Completion, EngineDied, OverNewWeights, Request, Sampling
from headrace.services.rollout.engines.decode_loop import DecodeLoop
from headrace.services.rollout.engines.decoding.slots import Sample
from headrace.services.rollout.engines.vllm.decoder import VllmDecoder
from tests.services.rollout.engines.vllm.scripted import ScriptedLlm, TwoTensors

WEIGHTS = {"a": 1, "b": 2}


def decoder_on(llm: ScriptedLlm, *, tokens: int = 4, slots: int = 8, stop: int = 99) -> VllmDecoder:
    sampling = Sampling(max_new_tokens=tokens, stop_token_ids=(stop,))
    return VllmDecoder(llm, TwoTensors(), sampling, max_concurrent=slots, version=0)


def samples(*lengths: int, owner: object = None, carry: Any = None) -> list[Sample]:
    """Prompts of ones, so that the first token drawn is the prompt's length."""
    return [
        Sample(
            request=Request(
                uid=uid, group=0, prompt_ids=np.ones(length, dtype=np.int32), seed=uid, carry=carry
            ),
            owner=owner,
        )
        for uid, length in enumerate(lengths)
    ]


def run(decoder: VllmDecoder, *, steps: int = 100, start: bool = True) -> dict[int, Completion]:
    passes = count()
    found: dict[int, Completion] = {}
    while finished := decoder.run(lambda: next(passes) >= steps, start=start):
        found |= {completion.uid: completion for _, completion in finished}
    return found


def versions(completions: dict[int, Completion]) -> dict[int, list[int]]:
    return {uid: completion.versions.tolist() for uid, completion in completions.items()}


def told(llm: ScriptedLlm, *names: str) -> Sequence[tuple[Any, ...]]:
    return [call for call in llm.calls if call[0] in names]


def test_tokens_behind_a_swap_carry_the_new_version() -> None:
    llm = ScriptedLlm()
    decoder = decoder_on(llm)
    decoder.add(samples(3, 5))
    assert run(decoder, steps=2) == {}
    decoder.use_weights(1, WEIGHTS)
    found = run(decoder)
    assert versions(found) == {0: [0, 0, 1, 1], 1: [0, 0, 1, 1]}
    assert found[1].token_ids.tolist() == [5, 6, 7, 8]
    assert found[1].logprobs.tolist() == [-5.0, -6.0, -7.0, -8.0]
    assert told(llm, "abort", "forget_prefixes") == []


def test_a_sample_without_a_token_begins_under_the_new_weights_and_their_prefixes() -> None:
    llm = ScriptedLlm(at_once=1)
    decoder = decoder_on(llm)
    decoder.add(samples(3, 2))
    run(decoder, steps=1)
    decoder.use_weights(1, WEIGHTS)
    assert (decoder.running, decoder.waiting) == (1, 1)
    assert versions(run(decoder)) == {0: [0, 1, 1, 1], 1: [1, 1, 1, 1]}
    assert llm.calls == [
        ("submit", "0", [1, 1, 1], "0"),
        ("submit", "1", [1, 1], "0"),
        ("abort", "1"),
        ("load", 1, WEIGHTS),
        ("submit", "2", [1, 1], "1"),
    ]


def test_an_idle_engine_forgets_the_prefixes_of_older_weights() -> None:
    llm = ScriptedLlm()
    decoder = decoder_on(llm)
    decoder.use_weights(4, {"c": 1, "b": 2})
    assert llm.calls == [("load", 4, WEIGHTS), ("forget_prefixes",)]
    assert decoder.version == 4


def test_an_interrupted_sample_is_prefilled_with_its_tokens_and_goes_on() -> None:
    llm = ScriptedLlm()
    decoder = decoder_on(llm)
    decoder.add(samples(3))
    run(decoder, steps=2)
    decoder.interrupt(keep=True)
    decoder.use_weights(1, WEIGHTS)
    found = run(decoder)
    assert versions(found) == {0: [0, 0, 1, 1]}
    assert found[0].token_ids.tolist() == [3, 4, 5, 6]
    assert told(llm, "submit")[1] == ("submit", "1", [1, 1, 1, 3, 4], "1")


def test_an_interrupted_sample_that_may_not_keep_its_tokens_begins_anew() -> None:
    llm = ScriptedLlm()
    decoder = decoder_on(llm)
    decoder.add(samples(3))
    run(decoder, steps=2)
    decoder.interrupt(keep=False)
    decoder.use_weights(1, WEIGHTS)
    assert versions(run(decoder)) == {0: [1, 1, 1, 1]}
    assert decoder.stats() == {"generated_tokens": 6.0, "discarded_tokens": 2.0, "decode_steps": 6.0}


def test_what_may_not_start_waits_until_those_that_began_are_done() -> None:
    llm = ScriptedLlm(at_once=1)
    decoder = decoder_on(llm)
    decoder.add(samples(3, 2))
    run(decoder, steps=1)
    assert versions(run(decoder, start=False)) == {0: [0, 0, 0, 0]}
    assert (decoder.running, decoder.waiting) == (0, 1)
    decoder.use_weights(1, WEIGHTS)
    assert versions(run(decoder)) == {1: [1, 1, 1, 1]}


def test_a_carry_comes_first_with_its_own_versions_and_counts_as_drawn() -> None:
    llm = ScriptedLlm()
    decoder = decoder_on(llm)
    carry = {"token_ids": [50, 51], "logprobs": [-0.5, -0.25], "versions": [7, 8]}
    decoder.add(samples(3, carry=carry))
    (completion,) = run(decoder).values()
    assert completion.token_ids.tolist() == [50, 51, 5, 6]
    assert completion.logprobs.tolist() == [-0.5, -0.25, -5.0, -6.0]
    assert completion.versions.tolist() == [7, 8, 0, 0]
    assert completion.finish_reason == "length"


@pytest.mark.parametrize(
    ("token_ids", "reason"), [([99], "stop"), ([5, 99], "stop"), ([5, 6, 7, 8], "length")]
)
def test_a_carry_that_is_whole_is_never_given_to_vllm(token_ids: list[int], reason: str) -> None:
    llm = ScriptedLlm()
    decoder = decoder_on(llm)
    places = [0] * len(token_ids)
    decoder.add(samples(3, carry={"token_ids": token_ids, "logprobs": places, "versions": places}))
    (completion,) = run(decoder).values()
    assert (completion.token_ids.tolist(), completion.finish_reason) == (token_ids, reason)
    assert llm.calls == []


def test_a_stop_token_ends_an_answer_and_is_part_of_it() -> None:
    llm = ScriptedLlm(stop=4)
    decoder = decoder_on(llm, stop=4)
    decoder.add(samples(3))
    (completion,) = run(decoder).values()
    assert (completion.token_ids.tolist(), completion.finish_reason) == ([3, 4], "stop")


def test_vllm_may_not_end_an_answer_for_a_reason_of_its_own() -> None:
    llm = ScriptedLlm(stop=4)
    decoder = decoder_on(llm)
    decoder.add(samples(3))
    with pytest.raises(RuntimeError, match=r"sample 0: vLLM says stop after 2 of 4 tokens, the last of them"):
        run(decoder)


def test_at_most_as_many_as_there_are_slots_are_given_to_vllm() -> None:
    llm = ScriptedLlm()
    decoder = decoder_on(llm, slots=2)
    decoder.add(samples(3, 4, 5))
    run(decoder, steps=1)
    assert (decoder.running, decoder.waiting) == (2, 1)
    assert sorted(run(decoder)) == [0, 1, 2]


def test_what_is_cancelled_is_aborted_and_its_neighbours_go_on() -> None:
    llm = ScriptedLlm()
    decoder = decoder_on(llm, slots=3)
    decoder.add(samples(3, 4, owner="mine"))
    decoder.add(samples(5, owner="theirs"))
    decoder.add(samples(6, owner="mine"))
    run(decoder, steps=1)
    left = decoder.cancel("mine")
    assert left == {
        0: {"token_ids": [3], "logprobs": [-3.0], "versions": [0]},
        1: {"token_ids": [4], "logprobs": [-4.0], "versions": [0]},
    }
    assert (decoder.running, decoder.waiting) == (1, 0)
    assert told(llm, "abort") == [("abort", "0", "1")]
    assert [completion.token_ids.tolist() for completion in run(decoder).values()] == [[5, 6, 7, 8]]


async def test_behind_the_loop_groups_come_whole_and_long_ones_later() -> None:
    loop = DecodeLoop(decoder_on(ScriptedLlm(stop=6), tokens=8, stop=6), over_new_weights="swap")
    lengths = {0: (5, 3), 1: (6, 6)}
    asked = [
        Request(uid=10 * group + i, group=group, prompt_ids=np.ones(length, dtype=np.int32), seed=0)
        for group, each in lengths.items()
        for i, length in enumerate(each)
    ]
    found = [[completion.uid for completion in batch] async for batch in loop.generate(asked)]
    await loop.close()
    assert found == [[10, 11], [0, 1]]


@pytest.mark.parametrize("over_new_weights", ["finish", "swap", "abort_keep", "abort_restart"])
async def test_a_load_that_fails_ends_the_engine(over_new_weights: OverNewWeights) -> None:
    llm = ScriptedLlm(confirms=False)
    loop = DecodeLoop(decoder_on(llm), over_new_weights=over_new_weights)
    with pytest.raises(ValueError, match="do not fit"):
        await loop.load(1, {"a": 1})
    with pytest.raises(EngineDied, match="the worker holds other weights"):
        await loop.load(1, WEIGHTS)
    assert loop.version == 0
    request = samples(3)[0].request
    with pytest.raises(EngineDied):
        await asyncio.ensure_future(anext(loop.generate([request])))
    await loop.close()
    assert llm.calls[-1] == ("close",)


async def test_a_request_that_does_not_fit_is_refused_before_vllm_sees_it() -> None:
    llm = ScriptedLlm()
    loop = DecodeLoop(decoder_on(llm), over_new_weights="swap")
    request = Request(uid=7, group=0, prompt_ids=np.ones(61, dtype=np.int32), seed=0)
    with pytest.raises(ValueError, match="sample 7: 61 prompt tokens and 4 new ones exceed the model's 64"):
        await anext(loop.generate([request]))
    await loop.close()
    assert llm.calls == [("close",)]
