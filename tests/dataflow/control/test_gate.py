"""Who is let in, and who is not."""

from collections.abc import AsyncIterator

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from headrace.dataflow.control.gate import Gate

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
URL = "http://127.0.0.1:4711"


async def who(request: Request) -> PlainTextResponse:
    return PlainTextResponse(request.headers.get("x-headrace-who", "nobody"))


@pytest.fixture
async def browser() -> AsyncIterator[httpx2.AsyncClient]:
    """It keeps its cookies, and has none yet."""
    gate = Gate(Starlette(routes=[Route("/", who, methods=METHODS)]), token="secret")
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=gate), base_url=URL) as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/nowhere", "/?token=wrong", "/?token=", "/?token=s%C3%A9cret"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Basic secret"},
        {"authorization": b"Bearer \xff\xfe"},
        {"cookie": "headrace=secret"},
        {"cookie": "headrace-2bb80d537b1d=browser.secret"},
    ],
)
async def test_a_stranger_is_told_nothing_but_that(
    browser: httpx2.AsyncClient, path: str, headers: dict[str, str]
) -> None:
    for method in METHODS:
        answer = await browser.request(method, path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "set-cookie" not in answer.headers


async def test_a_program_comes_in_by_its_token(browser: httpx2.AsyncClient) -> None:
    answer = await browser.post("/", headers={"authorization": "bearer secret", "x-headrace-who": "ann"})
    assert (answer.status_code, answer.text) == (200, "ann")
    assert answer.headers["cache-control"] == "no-store"


async def test_a_browser_shows_the_token_once_and_is_known_from_then_on(
    browser: httpx2.AsyncClient,
) -> None:
    welcome = await browser.get("/?a=1&token=secret&who=ann%40desk")
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/?a=1")
    cookie = welcome.headers["set-cookie"]
    assert "; HttpOnly; Path=/; SameSite=strict" in cookie
    assert "secret" not in cookie
    assert (await browser.get("/")).text == "ann@desk"
    assert (await browser.get("/nowhere")).status_code == 404


async def test_a_link_on_another_site_is_sent_on_by_a_page_of_ours(browser: httpx2.AsyncClient) -> None:
    welcome = await browser.get("/?token=secret", headers={"sec-fetch-site": "cross-site"})
    assert welcome.status_code == 200
    assert '<meta http-equiv="refresh" content="0; url=/">' in welcome.text
    assert (await browser.get("/")).text == "browser"


async def test_nobody_is_sent_on_to_another_host(browser: httpx2.AsyncClient) -> None:
    welcome = await browser.get(f"{URL}//elsewhere.example/x?token=secret")
    assert welcome.headers["location"] == "/elsewhere.example/x"


@pytest.mark.parametrize(
    ("origin", "code"),
    [
        ("http://127.0.0.1:4711", 200),
        ("http://127.0.0.1:4712", 403),
        ("https://elsewhere.example", 403),
        ("null", 403),
        (None, 403),
    ],
)
async def test_a_browser_changes_something_from_a_page_of_ours_only(
    browser: httpx2.AsyncClient, origin: str | None, code: int
) -> None:
    await browser.get("/?token=secret")
    answer = await browser.post("/", headers={} if origin is None else {"origin": origin})
    assert answer.status_code == code


async def test_a_cookie_for_another_name_or_another_launch_opens_nothing(
    browser: httpx2.AsyncClient,
) -> None:
    cookie = (await browser.get("/?token=secret&who=ann")).headers["set-cookie"].partition(";")[0]
    other = cookie.replace("=ann.", "=bob.")
    browser.cookies.clear()
    assert (await browser.get("/", headers={"cookie": cookie})).text == "ann"
    assert (await browser.get("/", headers={"cookie": other})).status_code == 401
    gate = Gate(Starlette(routes=[Route("/", who)]), token="another")
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=gate), base_url=URL) as second:
        assert (await second.get("/", headers={"cookie": cookie})).status_code == 401


async def test_cookies_of_other_ports_of_this_host_are_in_nobodys_way(browser: httpx2.AsyncClient) -> None:
    cookie = (await browser.get("/?token=secret&who=ann")).headers["set-cookie"].partition(";")[0]
    browser.cookies.clear()
    for other in ('view={"open": [1]}', "plain", "a b=c", "=", "ü=1"):
        headers = {b"cookie": f"{other}; {cookie}".encode("latin-1")}
        assert (await browser.get("/", headers=headers)).text == "ann"
