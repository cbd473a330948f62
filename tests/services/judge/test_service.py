"""The judge against an endpoint on the loopback."""

import json
import math
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from headrace.services.base import Output
from headrace.services.columns import PROMPT, RESPONSE
from headrace.services.errors import ReplicaFailed, ServiceError
from headrace.services.judge.service import Judge
from headrace.services.options import JudgeOptions
from headrace.services.verdicts.errors import JudgeOdd, JudgeSilent, JudgeUnusable
from headrace.transferqueue import Client, Rows, TableSpec, Task
from tests.services.bench import Remembered, context
from tests.services.endpoint.server import Said, Scripted, completion, fault, served

SPEC = TableSpec(
    name="rows",
    columns=(*PROMPT, *RESPONSE),
    tasks=(Task(name="judged", reads=("prompt_ids", "response_ids", "example")),),
)
TEMPLATE = "{prompt} {response} {example.gold}"


def rows(*answers: str, gold: str = "x") -> Rows:
    """Rows 0, 1, ... of the prompt 'ab>', in letters of tiny-copier's tokenizer."""
    count = len(answers)
    ids = pa.list_(pa.int32())
    return Rows(
        uids=np.arange(count, dtype=np.int64),
        groups=np.zeros(count, dtype=np.int64),
        attempts=np.ones(count, dtype=np.int32),
        versions=np.zeros(count, dtype=np.int64),
        carries=(None,) * count,
        columns={
            "prompt_ids": pa.array([[ord(letter) for letter in "ab>"]] * count, ids),
            "response_ids": pa.array([[ord(letter) for letter in answer] for answer in answers], ids),
            "example": pa.array([json.dumps({"gold": gold})] * count, pa.string()),
        },
        spec=SPEC,
    )


class Letters:
    """A token is a character; '$' ends an answer."""

    eos_token_id = ord("$")

    def decode(self, ids: np.ndarray, *, skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        return "".join(chr(each) for each in ids.tolist())


@asynccontextmanager
async def judging(
    server: Scripted, tmp_path: Path, **options: Any
) -> AsyncIterator[tuple[Judge, Remembered]]:
    report = Remembered()
    given = {"base_url": server.base_url, "model": "big", "template": TEMPLATE, **options}
    judge = Judge(load_tokenizer=lambda _: Letters())
    await judge.setup(context(cast(Client, None), report, tmp_path, options=JudgeOptions(**given)))
    try:
        yield judge, report
    finally:
        await judge.close()


async def scored(
    judge: Judge, leased: Rows, column: str = "reward"
) -> tuple[dict[int, tuple[Any, ...]], Exception | None]:
    """(value, why invalid, parts) by uid, and the error that ended them."""
    outputs: list[Output] = []
    error = None
    try:
        async for output in judge.process(leased):
            outputs.append(output)
    except ServiceError as raised:
        error = raised
    names = (column, f"{column}_invalid", f"{column}_parts")
    cells = {
        uid: tuple(output.columns[name][i] for name in names)
        for output in outputs
        for i, uid in enumerate(output.uids.tolist())
    }
    return cells, error


async def test_answers_are_scored_by_what_the_endpoint_replies(tmp_path: Path) -> None:
    replies = {"ab> c x": "8", "ab> d x": "It deserves a 2"}
    with served(lambda question, _: completion(replies[question], tokens=12)) as server:
        async with judging(server, tmp_path, scale=10.0, column="style", system_prompt="Be fair.") as (
            judge,
            report,
        ):
            cells, error = await scored(judge, rows("c$", "d"), "style")
    assert error is None
    assert cells == {0: (0.8, "", {"judge_tokens": 12.0}), 1: (0.2, "", {"judge_tokens": 12.0})}
    asked = {body["messages"][-1]["content"]: body for body in server.asked}
    assert asked["ab> c x"] == {
        "model": "big",
        "messages": [
            {"role": "system", "content": "Be fair."},
            {"role": "user", "content": "ab> c x"},
        ],
        "max_tokens": 256,
        "temperature": 0.0,
    }
    assert report.lines[-1][1] == {"judge/error_rate": 0.0, "judge/invalid_rate": 0.0}


async def test_a_reply_without_a_score_is_invalid(tmp_path: Path) -> None:
    texts = {"ab> c x": "splendid", "ab> d x": None}
    with served(lambda question, _: completion(texts[question])) as server:
        async with judging(server, tmp_path) as (judge, report):
            cells, error = await scored(judge, rows("c", "d"))
    assert error is None
    assert all(math.isnan(cells[uid][0]) for uid in (0, 1))
    assert [cells[uid][1:] for uid in (0, 1)] == [("no score in the reply", {})] * 2
    assert report.lines[-1][1]["judge/invalid_rate"] == 1.0


@pytest.mark.parametrize(
    "trouble",
    [fault(429, "slow down", retry_after="0"), fault(500, "oops"), fault(503, "busy", retry_after="0")],
    ids=["429", "500", "503"],
)
async def test_a_request_is_repeated_until_it_is_answered(tmp_path: Path, trouble: Said) -> None:
    with served(lambda _, before: trouble if before < 2 else completion("1")) as server:
        async with judging(server, tmp_path) as (judge, report):
            cells, error = await scored(judge, rows("c"))
    assert (cells[0][0], error, len(server.asked)) == (1.0, None, 3)
    assert report.lines[-1][1]["judge/error_rate"] == 0.0


async def test_repeats_end_and_the_row_goes_back_alone(tmp_path: Path) -> None:
    def script(question: str, _: int) -> Said:
        return fault(500, "out of memory") if " d " in question else completion("1")

    with served(script) as server:
        async with judging(server, tmp_path, retries=1) as (judge, _):
            cells, error = await scored(judge, rows("c", "d", "e"))
    assert sorted(cells) == [0, 2]
    assert isinstance(error, JudgeSilent)
    assert str(error) == (
        "1 of 3 answers could not be scored; uid 1: no reply to 2 requests;"
        " the last: status 500: out of memory"
    )
    assert server.questions().count("ab> d x") == 2


async def test_a_request_without_an_answer_ends_by_its_deadline(tmp_path: Path) -> None:
    with served(lambda *_: Said(hangs=True)) as server:
        async with judging(server, tmp_path, timeout_s=0.2, retries=0) as (judge, _):
            cells, error = await scored(judge, rows("c"))
    assert cells == {}
    assert isinstance(error, JudgeSilent) and str(error).endswith("the last: none within 0.2 s")


async def test_a_connection_that_nobody_takes_is_tried_again_and_said(tmp_path: Path) -> None:
    with served(lambda *_: completion("1")) as server:
        pass
    async with judging(server, tmp_path, retries=1) as (judge, _):
        _, error = await scored(judge, rows("c"))
    assert isinstance(error, JudgeSilent) and "no reply to 2 requests; the last: ConnectError" in str(error)


@pytest.mark.parametrize(
    "body", ["<html>hello</html>", "[]", '{"choices": []}', '{"choices": [{"message": 3}]}']
)
async def test_what_is_no_chat_completion_is_an_error_and_never_a_score(tmp_path: Path, body: str) -> None:
    with served(lambda *_: Said(body=body)) as server:
        async with judging(server, tmp_path) as (judge, _):
            cells, error = await scored(judge, rows("c"))
    assert cells == {} and len(server.asked) == 1
    assert isinstance(error, JudgeOdd) and "the reply is no chat completion" in str(error)


async def test_a_key_that_is_refused_ends_the_service_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "wrong-key")
    with served(lambda *_: fault(401, "Incorrect API key")) as server:
        async with judging(server, tmp_path, api_key_env="JUDGE_KEY") as (judge, _):
            _, error = await scored(judge, rows("c"))
    assert server.keys == ["Bearer wrong-key"]
    assert isinstance(error, ReplicaFailed)
    assert str(error) == (
        f"{server.base_url}/chat/completions answers with status 401: Incorrect API key;"
        " set api_key_env to an environment variable that holds a valid key"
    )


async def test_an_address_without_an_endpoint_ends_the_service_at_once(tmp_path: Path) -> None:
    with served(lambda *_: completion("1")) as server:
        async with judging(server, tmp_path, base_url=f"{server.base_url}/v2/") as (judge, _):
            _, error = await scored(judge, rows("c"))
    assert isinstance(error, ReplicaFailed)
    assert str(error).endswith("status 404: no route /v1/v2/chat/completions; check base_url and model")


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (fault(400, "filtered", code="content_filter"), "content_filter"),
        (fault(400, "This model's maximum context length is 8192 tokens"), "context_length_exceeded"),
    ],
)
async def test_an_answer_that_the_judge_refuses_is_invalid(
    tmp_path: Path, refusal: Said, reason: str
) -> None:
    with served(lambda *_: refusal) as server:
        async with judging(server, tmp_path) as (judge, _):
            cells, error = await scored(judge, rows("c"))
    assert error is None and cells[0][1:] == (f"the judge refused it: {reason}", {})
    assert len(server.asked) == 1


async def test_a_request_that_the_endpoint_does_not_take_is_an_error_of_the_row(tmp_path: Path) -> None:
    with served(lambda *_: fault(400, "temperature must be 1")) as server:
        async with judging(server, tmp_path) as (judge, _):
            cells, error = await scored(judge, rows("c"))
    assert cells == {} and isinstance(error, JudgeOdd)
    assert str(error).endswith("answers with status 400: temperature must be 1")


async def test_too_many_failures_end_the_service(tmp_path: Path) -> None:
    with served(lambda *_: fault(400, "no")) as server:
        async with judging(server, tmp_path) as (judge, _):
            _, error = await scored(judge, rows(*["c"] * 32))
    assert isinstance(error, ReplicaFailed)
    assert str(error).startswith("100% of the last 32 scorings raised, max_error_rate allows 50%; the last:")


async def test_an_entry_without_the_key_makes_the_row_invalid_and_asks_nobody(tmp_path: Path) -> None:
    with served(lambda *_: completion("1")) as server:
        async with judging(server, tmp_path, template="{example.rubric}") as (judge, _):
            cells, _ = await scored(judge, rows("c"))
    assert cells[0][1] == "its entry has no 'rubric'" and server.asked == []


async def test_a_process_closed_early_lets_go_of_its_requests(tmp_path: Path) -> None:
    def script(question: str, _: int) -> Said:
        return completion("1") if " c " in question else Said(hangs=True)

    with served(script) as server:
        async with judging(server, tmp_path) as (judge, _):
            outputs = judge.process(rows("c", "d"))
            assert (await anext(outputs)).uids.tolist() == [0]
            await cast(Any, outputs).aclose()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"template": "{promt}"}, r"the template has \{promt\}; it may have \{prompt\}, \{response\} and"),
        ({"pattern": "[0-9]+"}, "pattern '.*' has no group, which would hold the score; put what is"),
        ({"api_key_env": "NO_SUCH_KEY"}, "the environment variable NO_SUCH_KEY is not set; export it"),
    ],
)
async def test_what_cannot_work_fails_the_setup(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with served(lambda *_: completion("1")) as server, pytest.raises(JudgeUnusable, match=message):
        async with judging(server, tmp_path, **options):
            pass


async def test_as_many_requests_are_in_flight_as_allowed(tmp_path: Path) -> None:
    three = threading.Barrier(3, timeout=60)
    flying: list[str] = []
    together: list[int] = []

    def script(question: str, _: int) -> Said:
        with server.lock:
            flying.append(question)
            together.append(len(flying))
        three.wait()
        with server.lock:
            flying.remove(question)
        return completion("1")

    with served(script) as server:
        async with judging(server, tmp_path, max_concurrent=3) as (judge, _):
            assert judge.capacity == 6
            cells, _ = await scored(judge, rows(*"cdefghijk"))
    assert len(cells) == 9 and max(together) == 3
