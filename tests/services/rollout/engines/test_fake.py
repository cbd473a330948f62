import asyncio
from typing import Any

import numpy as np
import pytest

from headrace.services.options import RolloutOptions
from headrace.services.rollout.engines import EngineDied, OverNewWeights, Request, build
from headrace.services.rollout.engines.fake import FakeEngine, Script

PROMPT = np.array([5, 6, 7, 2], dtype=np.int32)


def ask(*uids: int) -> list[Request]:
    return [Request(uid=uid, group=0, prompt_ids=PROMPT, seed=uid) for uid in uids]


async def answers(engine: Any, requests: list[Request]) -> dict[int, list[int]]:
    return {c.uid: c.token_ids.tolist() async for batch in engine.generate(requests) for c in batch}


async def test_it_echoes_the_prompt() -> None:
    engine = await build(RolloutOptions(engine="fake"), None, seed=0, version=3)
    (batch,) = [batch async for batch in engine.generate(ask(0, 1))]
    await engine.close()
    assert [c.token_ids.tolist() for c in batch] == [[5, 6, 7, 1]] * 2
    assert [c.versions.tolist() for c in batch] == [[3] * 4] * 2
    assert [c.finish_reason for c in batch] == ["stop", "stop"]


async def test_it_gives_fixed_ids_cut_at_the_limit() -> None:
    engine = FakeEngine(Script.parse({"answer": [9, 8, 7]}), max_new_tokens=2)
    (batch,) = [batch async for batch in engine.generate(ask(0))]
    assert batch[0].token_ids.tolist() == [9, 8]
    assert batch[0].finish_reason == "length"


async def test_random_answers_follow_from_the_seed() -> None:
    script = Script(answer="random", mean_tokens=6, length_spread=0.8)
    first, second = FakeEngine(script), FakeEngine(script)
    drawn = await answers(first, ask(*range(30)))
    assert drawn == await answers(second, ask(*reversed(range(30))))
    assert len({len(answer) for answer in drawn.values()}) > 3


async def test_it_fails_as_scripted() -> None:
    always = FakeEngine(Script(fail_always=True))
    with pytest.raises(RuntimeError, match="call 1 fails, as scripted"):
        await answers(always, ask(0))
    second = FakeEngine(Script(fail_every=2))
    assert len(await answers(second, ask(0))) == 1
    with pytest.raises(RuntimeError, match="call 2 fails"):
        await answers(second, ask(0))
    poisoned = FakeEngine(Script(fail_uids=(4,)))
    with pytest.raises(RuntimeError, match="sample 4 fails"):
        await answers(poisoned, ask(3, 4))
    assert len(await answers(poisoned, ask(3, 5))) == 2


async def test_a_hanging_call_can_be_abandoned() -> None:
    engine = FakeEngine(Script(hang=True), max_concurrent=1)
    waiting = asyncio.create_task(answers(engine, ask(0, 1)))
    for _ in range(3):
        await asyncio.sleep(0)
    assert (engine.stats()["running"], engine.stats()["waiting"]) == (1, 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    for _ in range(3):
        await asyncio.sleep(0)
    assert (engine.stats()["running"], engine.stats()["waiting"]) == (0, 0)


async def test_new_weights_wait_for_samples_in_flight_where_they_finish() -> None:
    for over, versions in (("swap", [0, 0, 1, 1]), ("finish", [0, 0, 0, 0])):
        engine = FakeEngine(Script(), over_new_weights=over)  # pyright: ignore[reportArgumentType]
        stream = engine.generate(ask(0))
        first = asyncio.ensure_future(anext(stream))  # pyright: ignore[reportArgumentType]
        while engine.stats()["generated_tokens"] < 2:
            await asyncio.sleep(0)
        await engine.load(1, {})
        (completion,) = await first
        assert sorted(completion.versions.tolist()) == completion.versions.tolist()
        assert completion.versions.tolist()[:2] == versions[:2]
        assert completion.versions.tolist()[-1] == versions[-1]
        assert engine.version == 1


async def test_a_closed_engine_takes_nothing() -> None:
    engine = FakeEngine(Script())
    await engine.close()
    with pytest.raises(EngineDied, match="closed"):
        await answers(engine, ask(0))


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown latency; known are .*seconds_per_token"):
        Script.parse({"latency": 1.0})


@pytest.mark.parametrize(
    ("over_new_weights", "versions", "discarded"),
    [("swap", [0, 0, 0, 1], 0), ("abort_keep", [0, 0, 0, 1], 0), ("abort_restart", [1, 1, 1, 1], 3)],
)
async def test_what_is_in_flight_at_new_weights_goes_on_or_begins_anew(
    over_new_weights: OverNewWeights, versions: list[int], discarded: int
) -> None:
    """A token takes a turn of the event loop here, and so does the load that comes after the second."""
    engine = FakeEngine(Script(), over_new_weights=over_new_weights)
    answering = asyncio.ensure_future(anext(engine.generate(ask(0))))
    while engine.stats()["generated_tokens"] < 2:
        await asyncio.sleep(0)
    await engine.load(1, {})
    (completion,) = await answering
    assert completion.versions.tolist() == versions
    assert engine.stats()["discarded_tokens"] == discarded
