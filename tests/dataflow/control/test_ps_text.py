"""What `headrace ps` prints of the replicas of a launch."""

from typing import Any

from rich.console import Console

from headrace.dataflow.control.ps_text import render

FOUND = {
    "name": "run",
    "paused": {"who": "ann", "why": "a look", "since": 40.0},
    "short": [
        {"holder": "", "directory": "/q", "needed_bytes": 512, "reason": "it is full", "since": 95.0},
    ],
    "steps": {},
    "tables": {},
    "changes": [{"node": "answers", "action": "scale", "who": "bob", "why": "", "since": 97.0, "detail": {}}],
}


def standing(replica: str, **at: Any) -> dict[str, Any]:
    known = {"state": "ready", "since": 90.0, "pid": 7, "restarts": 0, "error": "", "shares": None}
    return {"replica": replica, **known, "doing": "", "still_s": 0.0, "waits": [], **at}


def test_every_replica_is_shown_with_what_it_is_at_and_how_long_it_may_wait() -> None:
    waits = [{"why": "no version of policy 'actor' after 3", "since_s": 4.0, "left_s": 296.0}]
    replicas = [
        standing("answers/0", doing="process 8 rows", still_s=31.4, waits=waits),
        standing("learn/0", doing="finish step 3", still_s=0.2),
    ]
    console = Console(width=200)
    with console.capture() as capture:
        console.print(render({**FOUND, "replicas": replicas}, now=100.0))
    lines = [" ".join(line.split()) for line in capture.get().splitlines()]
    assert "answers/0 process 8 rows 31 s without movement" in lines
    assert "answers/0 waits: no version of policy 'actor' after 3 4 s in 296 s" in lines
    assert "learn/0 finish step 3" in lines
    assert "paused for 60 s by ann: a look" in lines
    assert "the queue waits for room, for 5 s: make 512 bytes of it in /q (it is full)" in lines
    assert "under way: scale of answers, for 3 s, asked by bob" in lines


def test_what_replicas_say_is_shown_as_they_say_it_whatever_brackets_it_has() -> None:
    waits = [{"why": "rows of [/prompts]", "since_s": 4.0, "left_s": 296.0}]
    replicas = [
        standing("answers/0", doing="read [/data/x]", error="\x1b[2JKeyError: [red][/no/such]", waits=waits)
    ]
    console = Console(width=200)
    with console.capture() as capture:
        console.print(render({**FOUND, "replicas": replicas}, now=100.0))
    lines = [" ".join(line.split()) for line in capture.get().splitlines()]
    assert "answers/0 ready 10 s 7 0 \ufffd[2JKeyError: [red][/no/such]" in lines
    assert "answers/0 read [/data/x]" in lines
    assert "answers/0 waits: rows of [/prompts] 4 s in 296 s" in lines
