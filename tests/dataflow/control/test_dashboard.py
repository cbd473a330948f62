"""What the dashboard is made of, and what it is told of a launch."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from headrace.dataflow.control.app import app
from headrace.dataflow.control.drawing import drawn
from headrace.dataflow.control.feed import Feed
from headrace.dataflow.control.routes.dashboard import PAGE
from headrace.dataflow.language.parse import load
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.record.seen import Seen
from headrace.dataflow.record.telemetry import METRICS, SAMPLES, Record
from headrace.dataflow.running.live import Live
from headrace.transferqueue import ControllerUnreachable
from tests.dataflow.control.standing_in import SAMPLE


class Launch:
    """Stands in for `Live`."""

    def __init__(self, spec: GraphSpec) -> None:
        self.spec, self.seen, self.looks, self.is_away = spec, Seen(), 0, False

    async def overview(self) -> dict[str, Any]:
        self.looks += 1
        if self.is_away:
            raise ControllerUnreachable("no answer within 5 s")
        return {"name": "sort", "looks": self.looks}


def said(kind: str, step: int | None, body: dict[str, Any], source: str = "learn/0") -> Record:
    return Record(source=source, kind=kind, at=12.0, step=step, body=body, policy="actor")


@pytest.fixture
def launch() -> Launch:
    made = Launch(load("grpo_copy_cpu").spec)
    for step in range(3):
        made.seen.take(said(METRICS, step, {"reward/mean": step / 2, "actor/loss": 0.5}))
    made.seen.take(said(SAMPLES, None, {"step": 2, "samples": [SAMPLE]}))
    return made


@pytest.fixture
async def client(launch: Launch, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    live = cast(Live, launch)
    made = app(live, Feed(live), tmp_path, "secret")
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=made),
        base_url="http://127.0.0.1:4711",
        headers={"authorization": "Bearer secret"},
    ) as client:
        yield client


def parts() -> list[str]:
    return sorted(file.name for file in PAGE.iterdir())


async def test_the_page_needs_nothing_but_its_own_parts(client: httpx2.AsyncClient) -> None:
    page = await client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'self'; ")
    for name in parts():
        part = await client.get(f"/page/{name}")
        assert part.status_code == 200
        named = re.findall(r'(?:src|href)="/page/([^"]+)"|from "\./([^"]+)"', part.text)
        assert {first or second for first, second in named} <= set(parts())
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", part.text) == []
        assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", part.text) == []
        assert re.findall(r'<script>| style="| on\w+="', part.text) == []


@pytest.mark.parametrize("name", ["nope.js", "..%2fapp.py", "%2e%2e%2fapp.py", "app.py", "", "%00.js"])
async def test_nothing_else_is_handed_out_as_a_part_of_it(client: httpx2.AsyncClient, name: str) -> None:
    assert (await client.get(f"/page/{name}")).status_code == 404


async def test_the_picture_has_every_service_and_says_which_cannot_be_scaled(
    client: httpx2.AsyncClient,
) -> None:
    picture = (await client.get("/v1/picture")).json()
    cards = {card["name"]: card for card in picture["cards"]}
    assert {name: card["kind"] for name, card in cards.items()} == {
        "prompts": "source", "answers": "rollout", "scores": "reward", "learn": "trainer",
    }  # fmt: skip
    assert {name for name, card in cards.items() if card["why_single"]} == {"prompts", "learn"}
    assert {name: card["table"] for name, card in cards.items() if card["table"] != "prompts"} == {
        "prompts": ""
    }
    assert [(flow["source"], flow["target"]) for flow in picture["flows"]] == [
        ("prompts", "answers"), ("answers", "scores"), ("answers", "learn"), ("scores", "learn"),
    ]  # fmt: skip
    assert [(supply["trainer"], supply["reader"]) for supply in picture["supplies"]] == [("learn", "answers")]


def test_a_branch_is_shown_with_the_rows_that_it_leases() -> None:
    cards = {card.name: card.table for card in drawn(load("grpo_solver_verifier_cpu").spec).cards}
    assert (cards["judged"], cards["judgements"], cards["trust"]) == ("prompts", "judged", "judged")


def test_there_is_room_between_its_rows_for_what_is_live(launch: Launch) -> None:
    cards = {card.name: card.rect for card in drawn(launch.spec).cards}
    assert cards["answers"].y - (cards["prompts"].y + cards["prompts"].height) == 70.0


async def test_curves_are_asked_for_by_their_names(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/v1/metrics")).json() == {"metrics": {"actor": ["actor/loss", "reward/mean"]}}
    curves = await client.get("/v1/curves?policy=actor&metric=reward/mean&metric=nope")
    assert curves.json() == {
        "policy": "actor",
        "curves": {"reward/mean": [[0.0, 0.0], [1.0, 0.5], [2.0, 1.0]]},
    }
    assert (await client.get("/v1/curves?policy=actor")).status_code == 422


async def test_samples_are_handed_out_as_they_were_shown(client: httpx2.AsyncClient) -> None:
    of = {"policy": "actor", "step": 2, "at": 12.0}
    assert (await client.get("/v1/samples")).json() == {"samples": [{**SAMPLE, **of}]}
    for query in ("policy=judge", "step=1", "reward_max=0.5", "reward_min=1.5"):
        assert (await client.get(f"/v1/samples?{query}")).json() == {"samples": []}
    assert (await client.get("/v1/samples?order=upside-down")).status_code == 422
    assert (await client.get("/v1/samples?reward_min=nan")).status_code == 422


async def test_the_way_of_a_sample_is_read_from_the_newest_traces(
    client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    (tmp_path / "graph.yaml").touch()
    no_traces = await client.get("/v1/samples/prompts/7/path")
    assert (no_traces.status_code, no_traces.json()) == (200, {"stages": []})
    lines = {
        "prompts-0": [{"put": [7, 8], "table": "prompts", "at": 10.0}],
        "answers-0": [{"rows": [7], "table": "prompts", "leased": 11.0, "made": 12.0, "written": 12.5}],
        "scores-0": [{"rows": [7, 8], "table": "prompts", "leased": 13.0, "made": 14.0, "written": 14.0}],
        "learn-0": [{"rows": [7], "table": "prompts", "leased": 15.0, "made": 16.0, "written": 17.0}],
    }
    (tmp_path / "trace").mkdir()
    for replica, told in lines.items():
        (tmp_path / "trace" / f"{replica}.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in told)
        )
    way = (await client.get("/v1/samples/prompts/7/path")).json()["stages"]
    assert [(s["replica"] or s["name"], s["began"], s["ended"]) for s in way] == [
        ("waits for answers", 10.0, 11.0),
        ("answers/0", 11.0, 12.5),
        ("waits for scores", 12.5, 13.0),
        ("scores/0", 13.0, 14.0),
        ("waits for learn", 14.0, 15.0),
        ("learn/0", 15.0, 17.0),
    ]
    for row in ("prompts/8", "prompts/9", "other/7"):
        assert (await client.get(f"/v1/samples/{row}/path")).json() == {"stages": []}


def told(event: str) -> tuple[str, dict[str, Any]]:
    kind, data = event.removesuffix("\n\n").split("\n")
    return kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def test_those_who_watch_are_told_how_it_stands_until_it_is_over(launch: Launch) -> None:
    feed = Feed(cast(Live, launch), every_s=0.001)
    events = feed.events()
    kind, first = told(await anext(events))
    assert (kind, first["run"], first["rates"]) == ("standing", {"name": "sort", "looks": 1}, {"learn": 0.0})
    assert told(await anext(events))[1]["run"] == {"name": "sort", "looks": 2}
    launch.is_away = True
    kind, trouble = told(await anext(events))
    assert (kind, trouble["detail"]) == ("trouble", "the queue does not answer: no answer within 5 s")
    feed.end()
    assert [told(event) async for event in events] == [("over", {})]


async def test_all_who_watch_cost_the_launch_one_look(launch: Launch) -> None:
    feed = Feed(cast(Live, launch), every_s=3600.0)
    watching = [feed.events() for _ in range(3)]
    told_first = [told(await anext(events))[1]["run"]["looks"] for events in watching]
    assert (told_first, launch.looks) == ([1, 1, 1], 1)
    feed.end()
    assert [told(await anext(events))[0] for events in watching] == ["over"] * 3
