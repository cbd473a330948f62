"""Asks the control API of a run's live launch."""

import getpass
import socket
from pathlib import Path
from typing import Any

import httpx2

from headrace.dataflow.control.door import AskRefused, Door
from headrace.dataflow.record.rundir import RunDirError

OFFSET = "x-headrace-offset"
CONNECT_S = 5.0
ANSWER_S = 900.0
"""To scale down is to wait until what is held is done."""


class Control:
    """control = Control(Path("runs/latest")); control.get("/v1/run")"""

    def __init__(self, directory: Path) -> None:
        """Raises RunDirError where no launch of the run goes on."""
        self._directory = directory
        self._door = Door.of(directory)

    def get(self, route: str, **query: Any) -> Any:
        """Raises AskRefused with the launch's reason, RunDirError where it does not answer."""
        return self._asked("GET", route, params=query)

    def post(self, route: str, **ask: Any) -> Any:
        """As `get`."""
        return self._asked("POST", route, json=ask)

    def log(self, replica: str, *, lines: int, after: int | None = None) -> tuple[str, int]:
        """The end of a replica's log, or what follows a byte of it, and the byte that comes next."""
        node, _, index = replica.rpartition("/")
        query = {"lines": lines} if after is None else {"after": after}
        answer = self._answered("GET", f"/v1/services/{node}/{index}/log", params=query)
        return answer.text, int(answer.headers[OFFSET])

    def _asked(self, method: str, route: str, **content: Any) -> Any:
        answer = self._answered(method, route, **content)
        plain = answer.headers["content-type"].startswith("text/plain")
        return answer.text if plain else answer.json()

    def _answered(self, method: str, route: str, **content: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self._door.token}", "x-headrace-who": who()}
        try:
            answer = httpx2.request(
                method,
                self._door.url + route,
                headers=headers,
                timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S),
                trust_env=False,
                **content,
            )
        except httpx2.TransportError as error:
            raise RunDirError(
                f"the launch of {self._directory} does not answer at {self._door.url}: "
                f"{type(error).__name__}: {error}; if its process is gone, go on with the run by "
                f"`headrace run {self._directory}`"
            ) from error
        if answer.is_success:
            return answer
        raise AskRefused(_reason(answer))


def who() -> str:
    """Who asks, as events have it."""
    return f"{getpass.getuser()}@{socket.gethostname()}".encode("ascii", "replace").decode()


def _reason(answer: httpx2.Response) -> str:
    detail = answer.json().get("detail") if "json" in answer.headers.get("content-type", "") else answer.text
    if isinstance(detail, list):
        detail = "; ".join(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in detail)
    return f"{detail} (HTTP {answer.status_code})"
