"""The API over a launch that remembers what it was asked."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import httpx2
import psutil
import pytest

from headrace.dataflow.control.door import Door
from headrace.dataflow.control.server import serving
from headrace.dataflow.record.rundir import RunDirError
from headrace.dataflow.running.asks import Asker
from headrace.dataflow.running.drills import Ordered
from headrace.dataflow.running.live import Live
from tests.dataflow.control.standing_in import Launch


@pytest.fixture
def launch() -> Launch:
    return Launch()


@pytest.fixture
async def client(launch: Launch, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    (tmp_path / "graph.yaml").touch()
    (tmp_path / "logs").mkdir()
    async with (
        serving(cast(Live, launch), tmp_path) as door,
        httpx2.AsyncClient(
            base_url=door.url,
            headers={"authorization": f"Bearer {door.token}", "x-headrace-who": "ann@desk"},
            timeout=60.0,
        ) as client,
    ):
        yield client


async def test_asks_arrive_with_who_and_why(client: httpx2.AsyncClient, launch: Launch) -> None:
    scaled = await client.post("/v1/services/answers/scale", json={"replicas": 2, "why": "busy"})
    assert scaled.json() == {
        "node": "answers", "before": 1, "after": 2, "added": ["answers/1"], "drained": [], "renewed": [],
        "done": True,
    }  # fmt: skip
    restarted = await client.post("/v1/services/answers/restart", json={})
    assert restarted.json() == {"restarted": ["answers/0"]}
    moved = await client.post("/v1/staleness", json={"staleness": "inf", "policy": "actor"})
    assert moved.json() == {"moved": {"prompts": "inf"}}
    assert (await client.post("/v1/stop", json={"why": "done"})).json() == {"stopping": True}
    assert launch.asked == [
        ("answers", 2, Asker(who="ann@desk", why="busy"), False),
        ("answers", Asker(who="ann@desk")),
        (float("inf"), "actor"),
        Asker(who="ann@desk", why="done"),
    ]


async def test_every_route_asks_for_the_token(
    client: httpx2.AsyncClient, launch: Launch, tmp_path: Path
) -> None:
    routes = (await client.get("/openapi.json")).json()["paths"]
    assert {"/v1/run", "/v1/stop"} < set(routes)
    methods = ("get", "head", "post", "put", "delete", "options")
    for headers, tried in (({}, methods), ({"authorization": "Bearer x"}, ("get", "post"))):
        async with httpx2.AsyncClient(base_url=client.base_url, headers=headers, timeout=60.0) as stranger:
            for route in (*routes, "/", "/api", "/openapi.json", "/docs", "/nowhere"):
                for method in tried:
                    answer = await stranger.request(method, route)
                    assert answer.status_code == 401, (route, method)
    assert launch.asked == []


async def test_the_page_of_the_api_names_every_route_and_no_other_host(client: httpx2.AsyncClient) -> None:
    routes = (await client.get("/openapi.json")).json()["paths"]
    page = await client.get("/api")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert [route for route in routes if f"</b> {route}</h2>" not in page.text] == []
    assert "http" not in page.text
    assert "<td>replicas</td><td><code>integer &gt;= 1 and &lt;= 256</code>" in page.text


async def test_the_schema_says_what_every_answer_holds(client: httpx2.AsyncClient) -> None:
    schema = (await client.get("/openapi.json")).json()
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            assert "401" in route["responses"], path
            content = route["responses"]["200"]["content"]
            assert "text/plain" in content or "$ref" in content["application/json"]["schema"], (path, method)
    assert schema["components"]["schemas"]["Trouble"]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("route", "body", "code", "says"),
    [
        ("/v1/services/nope/scale", '{"replicas": 2}', 409, "no service 'nope' runs; there are answers"),
        ("/v1/services/answers/scale", '{"replicas": 0}', 422, "greater than or equal to 1"),
        ("/v1/services/answers/scale", '{"replicas": 2, "size": 3}', 422, "Extra inputs"),
        ("/v1/staleness", '{"staleness": NaN}', 422, "greater than or equal to 0"),
        ("/v1/staleness", '{"staleness": -1}', 422, "greater than or equal to 0"),
        ("/v1/staleness", "{", 422, "JSON decode error"),
        ("/v1/staleness", "", 422, "Field required"),
    ],
)
async def test_what_cannot_be_met_is_answered_with_its_reason(
    client: httpx2.AsyncClient, launch: Launch, route: str, body: str, code: int, says: str
) -> None:
    answer = await client.post(route, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == code
    assert says in json.dumps(answer.json()["detail"]).replace('\\"', '"')
    assert launch.asked == []


async def test_a_queue_that_is_away_is_said(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/v1/run")
    assert answer.status_code == 503
    assert answer.json() == {"detail": "the queue does not answer: no answer within 5 s"}


async def test_a_log_is_read_from_its_end(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    (tmp_path / "logs" / "answers-0.log").write_text("".join(f"line {n}\n" for n in range(300)))
    assert (await client.get("/v1/services/answers/0/log?lines=2")).text == "line 298\nline 299\n"
    assert (await client.get("/v1/services/answers/1/log")).text == ""
    away = await client.get("/v1/services/answers/2/log")
    assert (away.status_code, away.json()) == (404, {"detail": "there is no replica answers/2"})
    assert (await client.get("/v1/services/..%2f..%2fetc/0/log")).status_code == 404


async def test_a_log_is_followed_from_where_it_was_left(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "answers-0.log"
    log.write_text("one\ntwo\n")
    first = await client.get("/v1/services/answers/0/log?lines=1")
    assert (first.text, first.headers["x-headrace-offset"]) == ("two\n", "8")
    log.write_text("one\ntwo\nthree\n")
    then = await client.get("/v1/services/answers/0/log?after=8")
    assert (then.text, then.headers["x-headrace-offset"]) == ("three\n", "14")
    beyond = await client.get("/v1/services/answers/0/log?after=99")
    assert (beyond.text, beyond.headers["x-headrace-offset"]) == ("", "14")


async def test_it_listens_on_loopback_alone_and_its_file_is_the_owners(
    client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    port = client.base_url.port
    listening = [c.laddr for c in psutil.Process().net_connections() if c.status == psutil.CONN_LISTEN]
    assert [address.ip for address in listening if address.port == port] == ["127.0.0.1"]
    assert (tmp_path / "control.json").stat().st_mode & 0o777 == 0o600
    assert Door.of(tmp_path).url == f"http://127.0.0.1:{port}"


async def test_the_file_goes_with_the_launch(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").touch()
    async with serving(cast(Live, launch), tmp_path) as first:
        assert Door.of(tmp_path) == first
    with pytest.raises(RunDirError, match=r"no launch of .* goes on: it has no control.json"):
        Door.of(tmp_path)
    async with serving(cast(Live, launch), tmp_path) as second:
        assert second.token != first.token


async def test_routes_that_are_not_there_say_so(client: httpx2.AsyncClient) -> None:
    answers = await asyncio.gather(client.get("/docs"), client.get("/v2/run"), client.put("/v1/run"))
    assert [answer.status_code for answer in answers] == [404, 404, 405]


async def test_a_drill_reaches_the_launch_with_who_orders_it_and_why(
    client: httpx2.AsyncClient, launch: Launch
) -> None:
    slow = {"kind": "slow", "factor": 3.0, "why": "a drill"}
    assert (await client.post("/v1/services/answers/1/inject", json=slow)).json() == {"injected": "slow"}
    await client.post("/v1/queue/inject", json={"kind": "kill"})
    asker = Asker(who="ann@desk", why="a drill")
    assert launch.asked == [
        (Ordered(target="answers/1", kind="slow", factor=3.0), asker),
        (Ordered(target="queue", kind="kill"), Asker(who="ann@desk")),
    ]
    answer = await client.post("/v1/queue/inject", json={"kind": "melt"})
    assert (answer.status_code, "'full-disk'" in answer.text) == (422, True)
