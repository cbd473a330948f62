"""An OpenAI-compatible endpoint on the loopback that answers as it is told to."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast


@dataclass(frozen=True, kw_only=True)
class Said:
    """One answer of the endpoint."""

    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False


def completion(text: str | None, *, tokens: int | None = None) -> Said:
    usage = {} if tokens is None else {"usage": {"total_tokens": tokens}}
    return Said(body=json.dumps({"choices": [{"message": {"content": text}}], **usage}))


def fault(status: int, message: str, *, code: str | None = None, **headers: str) -> Said:
    body = json.dumps({"error": {"message": message, "code": code}})
    return Said(status=status, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})


class Scripted(ThreadingHTTPServer):
    """Answers each question by `script(question, how often it was asked before)`; a question is the last
    message of a chat, or a prompt."""

    daemon_threads = False

    def __init__(self, script: Callable[[Any, int], Said], route: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.route = route
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.released = threading.Event()
        self.lock = threading.Lock()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def questions(self) -> list[Any]:
        return [_question(body) for body in self.asked]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        server = cast(Scripted, self.server)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        question = _question(body)
        with server.lock:
            before = server.questions().count(question)
            server.asked.append(body)
            server.keys.append(self.headers.get("Authorization"))
        said = server.script(question, before)
        if self.path != f"/v1/{server.route}":
            said = fault(404, f"no route {self.path}")
        if said.hangs:
            server.released.wait()
            self.close_connection = True
            return
        data = said.body.encode()
        self.send_response(said.status)
        for name, value in {**said.headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None: ...


def _question(body: dict[str, Any]) -> Any:
    return body["messages"][-1]["content"] if "messages" in body else body["prompt"]


@contextmanager
def served(script: Callable[[Any, int], Said], *, route: str = "chat/completions") -> Iterator[Scripted]:
    with Scripted(script, route) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()
