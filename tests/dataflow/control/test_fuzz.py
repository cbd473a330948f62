"""Whatever is asked, in the shape of the schema or in none, is answered as the schema says."""

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx2
import jsonschema
import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.dataflow.control.app import app
from headrace.dataflow.control.feed import Feed
from headrace.dataflow.control.server import serving
from headrace.dataflow.running.live import Live
from tests.dataflow.control.standing_in import OVERVIEW, Launch

GRAPH = """\
name: copy
steps: 2
policies: {actor: {model: tiny-copier}}
nodes: {prompts: {kind: source, dataset: copy}}
"""

TEXTS = st.text(max_size=8) | st.sampled_from(["answers", "..", "inf", "-1", "nan", "\ud800", GRAPH])
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
ANYTHING = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    folder = tmp_path_factory.mktemp("run")
    (folder / "logs").mkdir()
    live = cast(Live, Launch(OVERVIEW))
    return app(live, Feed(live), folder, "secret")


def bodies(schema: dict[str, Any], models: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Mappings with the keys that a body has, and values that it may have or not; or anything."""
    model = models[schema["$ref"].rpartition("/")[2]]
    fields = {name: values(told) | ANYTHING for name, told in model["properties"].items()}
    return st.fixed_dictionaries({}, optional=fields) | ANYTHING


def values(told: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "enum" in told:
        return st.sampled_from(told["enum"])
    kinds = {"integer": st.integers(-1, 300), "number": st.floats(-1, 2000), "boolean": st.booleans()}
    return kinds.get(told.get("type", ""), TEXTS)


@settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_no_ask_ends_in_an_answer_that_the_schema_does_not_name(made: FastAPI, data: st.DataObject) -> None:
    schema = made.openapi()
    routes = [(m, path, route) for path, each in schema["paths"].items() for m, route in each.items()]
    method, path, route = data.draw(st.sampled_from(routes))
    for name in ("node", "index"):
        path = path.replace(f"{{{name}}}", quote(data.draw(TEXTS), safe="", errors="replace") or "-")
    query = [each["name"] for each in route.get("parameters", ()) if each["in"] == "query"]
    asks = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(query, PLAIN)))
    known = {"policy": "actor", "metric": "reward/mean"} if data.draw(st.booleans()) else {}
    sent: dict[str, Any] = {"params": {**asks, **{k: v for k, v in known.items() if k in query}}}
    if "requestBody" in route:
        told = route["requestBody"]["content"]["application/json"]["schema"]
        body = json.dumps(data.draw(bodies(told, schema["components"]["schemas"])))
        sent["content"] = data.draw(st.just(body.encode()) | st.binary(max_size=8))
        sent["headers"] = {"content-type": "application/json"}

    async def asked() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=made)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            client.headers["authorization"] = "Bearer secret"
            return await client.request(method, path, **sent)

    answer = asyncio.run(asked())
    if answer.status_code == 404 and answer.json() == {"detail": "Not Found"}:
        return
    assert str(answer.status_code) in route["responses"], (method, path, sent, answer.text)
    if answer.headers["content-type"] == "application/json":
        promised = route["responses"][str(answer.status_code)]["content"]["application/json"]["schema"]
        jsonschema.validate(answer.json(), {**promised, "components": schema["components"]})


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("schemathesis") is None, reason="needs schemathesis: the extra fuzz")
async def test_schemathesis_finds_no_server_error(tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").touch()
    (tmp_path / "logs").mkdir()
    async with serving(cast(Live, Launch(OVERVIEW)), tmp_path) as door:
        process = await asyncio.create_subprocess_exec(
            *("schemathesis", "run", f"{door.url}/openapi.json", "--seed", "1", "--max-examples", "40"),
            *("--checks", "not_a_server_error,status_code_conformance,response_schema_conformance"),
            *("-H", f"Authorization: Bearer {door.token}", "--generation-database", "none"),
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "200"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            out, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, out.decode()
