"""Asks the control API of a run's live launch."""

import getpass
import socket
from pathlib import Path
from typing import Any

import httpx2

from headrace.dataflow.control.door import AskRefused, Door
from headrace.dataflow.record.rundir import RunDirError

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

    def _asked(self, method: str, route: str, **content: Any) -> Any:
        headers = {
            "authorization": f"Bearer {self._door.token}",
            "x-headrace-who": f"{getpass.getuser()}@{socket.gethostname()}",
        }
        try:
            answer = httpx2.request(
                method,
                self._door.url + route,
                headers=headers,
                timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S),
                **content,
            )
        except httpx2.TransportError as error:
            raise RunDirError(
                f"the launch of {self._directory} does not answer at {self._door.url}: "
                f"{type(error).__name__}: {error}; if its process is gone, go on with the run by "
                f"`headrace run {self._directory}`"
            ) from error
        if answer.is_success:
            plain = answer.headers["content-type"].startswith("text/plain")
            return answer.text if plain else answer.json()
        raise AskRefused(_reason(answer))


def _reason(answer: httpx2.Response) -> str:
    detail = answer.json().get("detail") if "json" in answer.headers.get("content-type", "") else answer.text
    if isinstance(detail, list):
        detail = "; ".join(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in detail)
    return f"{detail} (HTTP {answer.status_code})"
