"""The openai engine against a server of completions on the loopback."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from headrace.services.endpoint.errors import KeyMissing, Refused, Silent
from headrace.services.errors import ReplicaFailed
from headrace.services.options import OpenaiOptions, PolicyOptions, RolloutOptions
from headrace.services.rollout.engines import NOT_SERVED, OWN, Completion, EngineDied, Request, build
from headrace.services.rollout.engines.openai_engine import OddCompletion, OpenaiEngine
from tests.services.endpoint.server import Said, Scripted, fault, served

POLICY = PolicyOptions(model="tiny-copier")


def drawn(prompt: list[int], ids: list[int], **other: Any) -> Said:
    """A completion as vLLM writes it, each token of log-probability -0.5."""
    choice = {
        "text": "never looked at",
        "token_ids": ids,
        "prompt_token_ids": prompt,
        "logprobs": {"token_logprobs": [-0.5] * len(ids)},
        "finish_reason": "stop",
        **other,
    }
    return Said(body=json.dumps({"choices": [choice]}))


def request(uid: int, *prompt: int, group: int = 0, carry: dict[str, Any] | None = None) -> Request:
    return Request(uid=uid, group=group, prompt_ids=np.array(prompt, np.int32), seed=100 + uid, carry=carry)


@asynccontextmanager
async def asking(server: Scripted, **options: Any) -> AsyncIterator[OpenaiEngine]:
    openai = OpenaiOptions(**{"base_url": server.base_url, "model": "m", "retries": 0, **options})
    engine = await build(
        RolloutOptions(engine="openai", max_new_tokens=5, openai=openai), POLICY, seed=0, version=OWN
    )
    assert isinstance(engine, OpenaiEngine)
    try:
        yield engine
    finally:
        await engine.close()


async def generated(engine: OpenaiEngine, *requests: Request) -> list[Completion]:
    return [each async for some in engine.generate(requests) for each in some]


async def test_ids_go_out_and_ids_come_back_with_their_log_probabilities() -> None:
    with served(lambda prompt, _: drawn(prompt, [9, 1]), route="completions") as server:
        async with asking(server) as engine:
            (made,) = await generated(engine, request(7, 3, 4, 2))
            assert engine.stats() == {"running": 0.0, "generated_tokens": 2.0}
    assert (made.uid, made.token_ids.tolist(), made.finish_reason) == (7, [9, 1], "stop")
    assert (made.logprobs.tolist(), made.versions.tolist()) == ([-0.5, -0.5], [0, 0])
    assert [made.token_ids.dtype, made.logprobs.dtype, made.versions.dtype] == ["int32", "float32", "int32"]
    assert server.asked == [
        {
            "model": "m",
            "prompt": [3, 4, 2],
            "max_tokens": 5,
            "temperature": 1.0,
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "seed": 107,
            "logprobs": 0,
            "return_token_ids": True,
        }
    ]


async def test_groups_come_out_whole() -> None:
    with served(lambda prompt, _: drawn(prompt, [prompt[0]]), route="completions") as server:
        async with asking(server) as engine:
            asked = [request(uid, 3 + uid // 2, group=uid // 2) for uid in range(6)]
            yields = [[each.uid // 2 for each in some] async for some in engine.generate(asked)]
    assert all(group.count(each) == 2 for group in yields for each in group)
    assert sorted(each for group in yields for each in group) == [0, 0, 1, 1, 2, 2]


async def test_an_interrupted_answer_goes_on_from_its_ids() -> None:
    carry = {"token_ids": [8, 6], "logprobs": [-1.0, -2.0], "versions": [0, 0]}
    said = lambda prompt, _: drawn(prompt, [5], finish_reason="length")  # noqa: E731
    with served(said, route="completions") as server:
        async with asking(server) as engine:
            (made,) = await generated(engine, request(0, 3, carry=carry))
    assert (server.asked[0]["prompt"], server.asked[0]["max_tokens"]) == ([3, 8, 6], 3)
    assert (made.token_ids.tolist(), made.logprobs.tolist()) == ([8, 6, 5], [-1.0, -2.0, -0.5])
    assert made.finish_reason == "length"


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"token_ids": None}, "the server answers without the token ids that it drew; .* return_token_ids"),
        ({"logprobs": None}, "the server answers without the log-probabilities that it drew"),
        ({"prompt_token_ids": [0, 3]}, r"the server read another prompt than it was sent \(2 tokens for 1\)"),
    ],
)
async def test_a_server_without_ids_ends_the_replica_and_its_text_is_never_read(
    other: dict[str, Any], named: str
) -> None:
    with served(lambda prompt, _: drawn(prompt, [9], **other), route="completions") as server:
        async with asking(server) as engine:
            with pytest.raises(ReplicaFailed, match=named):
                await generated(engine, request(0, 3))


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"finish_reason": "abort"}, "ended by 'abort'; allowed are stop and length"),
        ({"token_ids": "9"}, "tokens are no lists: 9"),
        ({"token_ids": []}, "has 0 token ids and 1 log-probabilities"),
        ({"token_ids": ["9"]}, "token ids are no whole numbers"),
        ({"logprobs": {"token_logprobs": [None]}}, r"log-probabilities are none: \[None\]"),
        ({"logprobs": {"token_logprobs": [0.5]}}, r"log-probabilities are none: \[0.5\]"),
    ],
)
async def test_an_odd_completion_is_an_error_of_its_rows(other: dict[str, Any], named: str) -> None:
    with served(lambda prompt, _: drawn(prompt, [9], **other), route="completions") as server:
        async with asking(server) as engine:
            with pytest.raises(OddCompletion, match=named):
                await generated(engine, request(0, 3))


@pytest.mark.parametrize(
    ("said", "error", "named"),
    [
        (fault(401, "who are you"), ReplicaFailed, "status 401: who are you; set api_key_env"),
        (fault(404, "no model m"), ReplicaFailed, "status 404: no model m; check base_url and model"),
        (fault(400, "This model's maximum context length is 8"), Refused, "context_length_exceeded"),
        (fault(503, "loading"), Silent, "no reply to 1 requests; the last: status 503: loading"),
        (Said(body="hello"), OddCompletion, "the answer is no completion: 'hello'; base_url is up to before"),
        (Said(body='{"choices": [3]}'), OddCompletion, "the answer is no completion"),
    ],
)
async def test_what_the_server_says_is_told(said: Said, error: type[Exception], named: str) -> None:
    with served(lambda *_: said, route="completions") as server:
        async with asking(server) as engine:
            with pytest.raises(error, match=named):
                await generated(engine, request(0, 3))


async def test_a_busy_server_is_asked_again() -> None:
    def script(prompt: list[int], before: int) -> Said:
        return fault(503, "busy", retry_after="0") if before < 2 else drawn(prompt, [9])

    with served(script, route="completions") as server:
        async with asking(server, retries=2) as engine:
            (made,) = await generated(engine, request(0, 3))
    assert (made.token_ids.tolist(), len(server.asked)) == ([9], 3)


async def test_a_call_closed_early_lets_go_of_its_requests() -> None:
    def script(prompt: list[int], _: int) -> Said:
        return drawn(prompt, [9]) if prompt == [3] else Said(hangs=True)

    with served(script, route="completions") as server:
        async with asking(server) as engine:
            call = engine.generate([request(0, 3), request(1, 4, group=1)])
            assert [each.uid for each in await anext(call)] == [0]
            await call.aclose()
            assert engine.stats()["running"] == 0.0


async def test_a_call_that_waits_ends_with_the_engine() -> None:
    with served(lambda *_: Said(hangs=True), route="completions") as server:
        async with asking(server) as engine:
            waiting = asyncio.ensure_future(generated(engine, request(0, 3)))
            while not server.asked:
                await asyncio.sleep(0.01)
        with pytest.raises(EngineDied, match="the engine was closed"):
            await waiting


async def test_a_server_takes_no_weights_and_a_closed_engine_no_requests() -> None:
    with served(lambda prompt, _: drawn(prompt, [9]), route="completions") as server:
        async with asking(server) as engine:
            with pytest.raises(ReplicaFailed, match="a server keeps its own weights; use engine: torch"):
                await engine.load(1, {})
        with pytest.raises(EngineDied):
            await generated(engine, request(0, 3))


async def test_what_cannot_work_is_refused_before_a_request() -> None:
    options = RolloutOptions(engine="openai")
    with pytest.raises(ValueError, match="asks a server, got none; set openai:"):
        await build(options, POLICY, seed=0, version=OWN)
    openai = OpenaiOptions(base_url="http://127.0.0.1:1/v1", model="m", api_key_env="NO_SUCH_KEY")
    with pytest.raises(ValueError, match="a trainer publishes others; use engine: torch"):
        await build(RolloutOptions(engine="openai", openai=openai), POLICY, seed=0, version=NOT_SERVED)
    with pytest.raises(KeyMissing, match="NO_SUCH_KEY is not set"):
        await build(RolloutOptions(engine="openai", openai=openai), POLICY, seed=0, version=OWN)
