"""What the client does with statuses beyond those that the judge's tests see."""

import pytest

from headrace.services.endpoint.client import Endpoint, key_in
from headrace.services.endpoint.errors import KeyMissing, Refused, Rejected
from tests.services.endpoint.server import Said, Scripted, fault, served


def asking(server: Scripted) -> Endpoint:
    return Endpoint(server.base_url, "completions", None, timeout_s=60.0, retries=0, max_concurrent=1)


async def test_the_text_of_an_answer_comes_back_as_it_is() -> None:
    with served(lambda *_: Said(body="[1, 2"), route="completions") as server:
        endpoint = asking(server)
        assert await endpoint.ask({"prompt": "a"}) == "[1, 2"
        await endpoint.close()
    assert server.asked == [{"prompt": "a"}]


@pytest.mark.parametrize(
    ("said", "error", "text"),
    [
        (fault(413, "too large"), Refused, "context_length_exceeded"),
        (fault(422, "no such field"), Rejected, "completions answers with status 422: no such field"),
        (Said(status=400, body="[]"), Rejected, r"completions answers with status 400: \[\]"),
    ],
)
async def test_a_status_that_no_repeat_changes_is_told(said: Said, error: type[Exception], text: str) -> None:
    with served(lambda *_: said, route="completions") as server:
        endpoint = asking(server)
        with pytest.raises(error, match=text):
            await endpoint.ask({"prompt": "a"})
        await endpoint.close()


def test_a_key_is_read_from_the_variable_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "secret")
    assert (key_in(None), key_in("SOME_KEY")) == (None, "secret")
    with pytest.raises(KeyMissing, match="the environment variable NO_SUCH_KEY is not set; export it"):
        key_in("NO_SUCH_KEY")
