import io
import subprocess
import sys
from dataclasses import replace

from rich.console import Console

from headrace.dataflow.record.progress import Progress, Status, event_line
from headrace.dataflow.record.telemetry import Record


def metrics(
    step: int | None, body: dict[str, float] | None = None, *, at: float = 0.0, source: str = "learn/0"
) -> Record:
    return Record(source=source, kind="metrics", at=at, step=step, body=body or {})


def shown(steps: int, records: list[Record], *, terminal: bool = False) -> list[str]:
    out = io.StringIO()
    with Progress({"": steps}, Console(file=out, force_terminal=terminal, width=100)) as progress:
        for record in records:
            progress.take(record)
    return out.getvalue().splitlines()


def test_a_line_holds_the_step_its_figures_and_who_was_busy() -> None:
    status = Status.of({"": 120})
    for record in (
        metrics(None, {"busy": 0.75}, source="answers/0"),
        metrics(None, {"busy": 0.25}, source="answers/1"),
        metrics(None, {"rows_done": 3.0}, source="scores/0"),
        metrics(11, {"reward/mean": 0.531, "reward/exact": 0.25, "staleness/max": 1.0}),
    ):
        status = status.after(record)
    assert status.line("") == "step 12/120  reward 0.531  exact 0.25  staleness 1  busy: answers 50%"


def test_time_left_follows_the_pace_of_this_launch() -> None:
    status = Status.of({"": 100}).after(metrics(49, at=1000.0))
    assert status.policies[""].seconds_left is None
    status = status.after(metrics(59, at=1005.0))
    assert status.policies[""].seconds_left == 20.0


def test_without_a_terminal_about_forty_lines_are_printed() -> None:
    lines = shown(400, [metrics(step) for step in range(400)])
    assert lines == ["step 1/400", *(f"step {done}/400" for done in range(10, 401, 10))]


def test_a_short_run_prints_every_step() -> None:
    assert shown(3, [metrics(step) for step in range(3)]) == ["step 1/3", "step 2/3", "step 3/3"]


def test_trouble_is_printed_and_routine_is_not() -> None:
    failed = Record(
        source="answers/0", kind="process_failed", at=0.0, step=None, body={"reason": "[red]boom\nagain"}
    )
    ready = Record(source="answers/0", kind="state", at=0.0, step=None, body={"new": "ready"})
    assert shown(3, [ready, failed]) == ["answers/0: process_failed reason [red]boom again"]


def test_a_long_event_is_cut() -> None:
    text = event_line(Record(source="a/0", kind="lost", at=0.0, step=None, body={"reason": "x" * 500}))
    assert text is not None and len(text) == 240 and text.endswith("…")


def test_a_terminal_shows_a_bar_and_keeps_the_last_status() -> None:
    text = "\n".join(shown(4, [metrics(0, at=1.0), metrics(1, at=3.0)], terminal=True))
    assert "step 2/4" in text and "0:04 left" in text and "━" in text


def test_each_of_several_policies_has_lines_of_its_own() -> None:
    out = io.StringIO()
    with Progress({"solver": 3, "verifier": 2}, Console(file=out, width=100)) as progress:
        for policy, step in (("solver", 0), ("solver", 1), ("verifier", 0)):
            progress.take(replace(metrics(step, {"reward/mean": 0.5}), policy=policy))
    assert out.getvalue().splitlines() == [
        "solver  step 1/3  reward 0.5",
        "solver  step 2/3  reward 0.5",
        "verifier  step 1/2  reward 0.5",
    ]


def test_a_terminal_shows_a_bar_for_each_policy() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with Progress({"solver": 4, "verifier": 2}, console) as progress:
        progress.take(replace(metrics(0, {"reward/mean": 0.25}), policy="verifier"))
    assert "step 0/4" in out.getvalue() and "step 1/2" in out.getvalue()
    assert "verifier  reward 0.25" in out.getvalue()


def test_an_evaluation_is_a_line() -> None:
    scores = Record(
        source="held_out/0",
        kind="scores",
        at=0.0,
        step=20,
        body={"eval/held_out/reward": 0.75, "eval/held_out/exact": 0.5},
        policy="actor",
    )
    assert shown(3, [scores]) == ["held_out: version 20 of actor  reward 0.75  exact 0.5"]


def test_a_run_whose_reader_is_gone_goes_on_silently() -> None:
    code = (
        "import sys\n"
        "from headrace.dataflow.record.progress import Progress\n"
        "from headrace.dataflow.record.telemetry import Record\n"
        "event = Record(source='a/0', kind='lost', at=0.0, step=None, body={'reason': 'x'})\n"
        "sys.stdin.read()\n"
        "with Progress({'': 1}) as progress:\n"
        "    progress.take(event), progress.take(event)\n"
        "print('the run went on', file=sys.stderr)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdin is not None and process.stderr is not None
        process.stdout.close()
        process.stdin.close()
        assert process.stderr.read() == "the run went on\n"
    assert process.returncode == 0
