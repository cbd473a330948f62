"""A05: a rollout replica is ready once its engine drew a token with the version that it serves."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from headrace.services.errors import describe, first_error
from headrace.services.options import OpenaiOptions, RolloutOptions
from headrace.services.replica import Replica
from headrace.services.rollout import service
from headrace.services.rollout.engines import Carry, Completion, Request
from headrace.services.rollout.engines.fake import FakeEngine, Script
from headrace.services.rollout.service import FIRST, Rollout
from headrace.services.weights import WeightStore
from headrace.transferqueue import Client
from tests.services.bench import NUMBERS, Remembered, context, queue
from tests.services.driven import Store
from tests.services.endpoint.server import Said, fault, served


@asynccontextmanager
async def replica(
    tmp_path: Path, options: RolloutOptions, **changes: Any
) -> AsyncIterator[tuple[Replica, Remembered, Client]]:
    async with (
        asyncio.timeout(60),
        queue(tmp_path, NUMBERS) as (address, client),
        await Client.connect(address, holder="double/0") as own,
    ):
        await client.end("numbers")
        report = Remembered()
        knows = context(own, report, tmp_path, options=options, **changes)
        yield Replica(Rollout(), knows, cast(WeightStore, Store())), report, client


async def why_not_ready(tmp_path: Path, options: RolloutOptions, **changes: Any) -> str:
    async with replica(tmp_path, options, **changes) as (made, report, client):
        if changes.get("policy_is_trained"):
            await client.publish("actor", 3, "")
        with pytest.raises(ExceptionGroup) as raised:
            await made.run()
        assert report.states == ["loading", "failed"]
        said = describe(first_error(raised.value))
        assert report.of("state")[-1]["reason"] == said
        return said


async def test_an_engine_that_hangs_on_its_first_token_is_never_ready(tmp_path: Path) -> None:
    options = RolloutOptions(engine="fake", fake={"hang": True}, stalled_after_s=0.2)
    said = await why_not_ready(tmp_path, options, policy_is_trained=True)
    assert said.startswith(
        "ReplicaFailed: it is not ready: it was to make a first output at version 3, and none came within "
        "0.2 s"
    )


async def test_an_engine_that_raises_on_its_first_token_is_never_ready(tmp_path: Path) -> None:
    options = RolloutOptions(engine="fake", fake={"fail_always": True})
    assert await why_not_ready(tmp_path, options) == (
        "ReplicaFailed: it is not ready: it was to make a first output, and that failed <- "
        "RuntimeError: fake engine: call 1 fails, as scripted"
    )


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Said(hangs=True), "none came within 0.3 s"),
        (fault(500, "CUDA error"), "CUDA error"),
        (
            Said(body=json.dumps({"choices": [{"text": "4", "finish_reason": "stop"}]})),
            "without the token ids",
        ),
    ],
    ids=["hangs", "raises", "has no ids"],
)
async def test_a_server_whose_port_answers_and_that_generates_nothing_is_never_ready(
    tmp_path: Path, said: Said, why: str
) -> None:
    with served(lambda prompt, _: said, route="completions") as server:
        openai = OpenaiOptions(base_url=server.base_url, model="m", retries=0)
        options = RolloutOptions(engine="openai", openai=openai, stalled_after_s=0.3)
        assert why in await why_not_ready(tmp_path, options)
        assert [asked["prompt"] for asked in server.asked] == [[0]]
        assert server.asked[0]["max_tokens"] == 1


async def test_a_token_of_another_version_than_the_one_confirmed_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Behind(FakeEngine):
        """Confirms what it loads, and goes on with what it had."""

        async def generate(
            self, requests: Sequence[Request], left: dict[int, Carry] | None = None
        ) -> AsyncGenerator[list[Completion], None]:
            yield [
                Completion(
                    uid=request.uid,
                    token_ids=np.array([9], np.int32),
                    logprobs=np.array([-1.0], np.float32),
                    versions=np.array([2], np.int32),
                    finish_reason="length",
                )
                for request in requests
            ]

    async def build(*_: Any, **__: Any) -> FakeEngine:
        return Behind(Script())

    monkeypatch.setattr(service, "build", build)
    said = await why_not_ready(tmp_path, RolloutOptions(engine="fake"), policy_is_trained=True)
    assert "serves version 3 by its own account, and drew tokens of versions [2]" in said


@pytest.mark.parametrize("engine", ["torch", "fake"])
async def test_an_engine_that_draws_its_first_token_is_ready(tmp_path: Path, engine: str) -> None:
    options = RolloutOptions(engine=cast(Any, engine), max_new_tokens=5, max_concurrent=2)
    async with replica(tmp_path, options) as (made, report, _):
        await made.run()
    assert report.states == ["loading", "ready", "stopped"]


@pytest.mark.parametrize("engine", ["torch", "fake"])
async def test_the_first_output_is_one_token_and_changes_none_that_follows(
    tmp_path: Path, engine: str
) -> None:
    """Long enough scripts and models: the answers of two fresh services, one of which proved itself."""
    options = RolloutOptions(engine=cast(Any, engine), max_new_tokens=5, max_concurrent=2)
    asked = [Request(uid=uid, group=0, prompt_ids=np.array([5, 6, 2]), seed=uid) for uid in range(2)]
    drawn: list[list[list[int]]] = []
    for proves in (False, True):
        made = Rollout()
        await made.setup(context(cast(Client, None), Remembered(), tmp_path, options=options))
        if proves:
            await made.prove()
            assert made.progress() == 1.0
        assert made._engine is not None
        found = [each async for some in made._engine.generate(asked) for each in some]
        drawn.append([each.token_ids.tolist() for each in sorted(found, key=lambda each: each.uid)])
        await made.close()
    assert drawn[0] == drawn[1]


def test_a_request_may_ask_for_fewer_tokens_than_the_engine_and_never_for_more() -> None:
    assert FIRST.most(16) == 1
    assert Request(uid=0, group=0, prompt_ids=np.array([1]), seed=0).most(16) == 16
    assert Request(uid=0, group=0, prompt_ids=np.array([1]), seed=0, max_new_tokens=20).most(16) == 16
