import json
import re
from pathlib import Path

import pytest

from headrace.dataflow.record.report import write_html
from headrace.dataflow.record.rundir import RunDir, RunDirError
from headrace.dataflow.record.summary import closing, summary
from headrace.dataflow.record.telemetry import Record, Speakers, Telemetry

STEPS = 12


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """Twelve steps of one second; reward s/10 and exact s/20 at step s; one slow step, two replicas."""
    run = RunDir.create("sort", tmp_path / "sort" / "one")
    run.graph.write_text("name: sort\n")
    with Telemetry(run) as telemetry:

        def say(source: str, kind: str, at: float, step: int | None = None, **body: object) -> None:
            telemetry.take(Record(source=source, kind=kind, at=at, step=step, body=body))

        say("launch", "run_started", 100.0, first_step=0)
        for s in range(STEPS):
            metrics = {
                "reward/mean": s / 10,
                "reward/exact": s / 20,
                "staleness/mean": 0.5,
                "staleness/max": float(s == 7),
                "staleness/violations": 0.0,
                "samples/trained": 256.0,
                "perf/step_time": 3.0 if s == 0 else 1.0,
                "perf/tokens_per_s": 100.0 if s == 0 else 1400.0,
                "actor/pg_loss": -0.01 * s,
            }
            say("learn/0", "metrics", 101.0 + s, s, **metrics)
        say("answers/0", "metrics", 112.0, busy=0.8, idle_wait_data=0.1, idle_wait_weights=0.1, paused=0.0)
        say("answers/1", "metrics", 112.0, busy=0.6, idle_wait_data=0.4, idle_wait_weights=0.0, paused=0.0)
        say("learn/0", "metrics", 112.0, busy=0.25)
        say("answers/1", "process_failed", 112.5, reason="<script>alert(1)</script>")
        say("launch", "queue", 113.0, table="rows", duplicated=0, lost=0)
        say("launch", "run_ended", 114.0, status="completed")
    return run


def test_the_summary_is_what_the_records_say(run: RunDir) -> None:
    assert summary(run.path) == {
        "status": "completed",
        "steps": 12,
        "seconds": 14.0,
        "reward_first": pytest.approx(0.2),
        "reward_last": pytest.approx(0.9),
        "exact_first": pytest.approx(0.1),
        "exact_last": pytest.approx(0.45),
        "staleness_max": 1.0,
        "staleness_violations": 0,
        "samples_trained": 3072,
        "samples_duplicated": 0,
        "samples_lost": 0,
        "tokens_per_s": pytest.approx((3 * 100 + 11 * 1400) / 14),
        "busy": {"answers": pytest.approx(0.7), "learn": 0.25},
    }


def test_a_run_without_a_step_has_a_summary_and_a_page(tmp_path: Path) -> None:
    run = RunDir.create("sort", tmp_path / "sort" / "one")
    run.graph.write_text("name: sort\n")
    figures = summary(run.path)
    assert (figures["status"], figures["steps"], figures["seconds"]) == ("unfinished", 0, 0.0)
    assert (figures["exact_last"], figures["samples_lost"], figures["busy"]) == (None, None, {})
    assert json.loads(json.dumps(figures)) == figures
    assert "No step has been recorded yet." in write_html(run.path).read_text()
    assert "exact ? -> ?" in closing(figures, run.report)


def test_the_page_stands_alone(run: RunDir) -> None:
    page = write_html(run.path).read_text(encoding="utf-8")
    assert not re.search(r"https?:|<script|<link|@import|url\(|src=", page)
    assert 'name="viewport"' in page and "prefers-color-scheme: dark" in page


def test_the_page_shows_each_known_curve_once(run: RunDir) -> None:
    page = write_html(run.path).read_text(encoding="utf-8")
    titles = re.findall(r"<figcaption><strong>(.*?)</strong>", page)
    assert titles == ["Reward", "Exact", "Loss", "Staleness", "Tokens per second", "Step time (s)"]
    assert page.count("<polyline") == 7


def test_the_page_names_services_and_escapes_events(run: RunDir) -> None:
    page = write_html(run.path).read_text(encoding="utf-8")
    assert '<th scope="row">answers/1</th>' in page and "60.0 %" in page
    assert "reason &lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "12.5 s" in page


def test_the_closing_lines_name_the_report(run: RunDir) -> None:
    assert closing(summary(run.path), run.report).splitlines() == [
        "completed: 12 steps in 14.0 s, 1121 tokens/s",
        "exact 0.1 -> 0.45, reward 0.2 -> 0.9",
        "samples: 3072 trained, 0 twice, 0 lost; staleness at most 1, 0 violations",
        f"report: {run.report}",
    ]


@pytest.fixture
def two(tmp_path: Path) -> RunDir:
    """Two policies of two and of three steps, and an eval of the first one."""
    run = RunDir.create("duo", tmp_path / "duo" / "one")
    run.graph.write_text("name: duo\n")
    speakers = Speakers(trainers={"a": "solver", "b": "verifier"}, evals={"held_out": "solver"})
    with Telemetry(run, speakers) as telemetry:

        def say(source: str, step: int, **body: object) -> None:
            telemetry.take(Record(source=source, kind="metrics", at=1.0 + step, step=step, body=body))

        for source, steps, reward, stale in (("a/0", 2, 0.5, 1.0), ("b/0", 3, 0.25, 2.0)):
            for step in range(steps):
                metrics = {
                    "reward/mean": reward,
                    "samples/trained": 8.0,
                    "staleness/max": stale,
                    "perf/step_time": 2.0,
                    "perf/tokens_per_s": 100.0,
                }
                say(source, step, **metrics)
        say("held_out/0", 0, **{"eval/held_out/reward": 0.1, "eval/held_out/exact": 0.0})
        say("held_out/0", 2, **{"eval/held_out/reward": 0.6, "eval/held_out/exact": 0.5})
    return run


def test_figures_of_several_policies_stand_apart_and_those_that_add_up_together(two: RunDir) -> None:
    figures = summary(two.path)
    assert (figures["steps"], figures["samples_trained"], figures["tokens_per_s"]) == (5, 40, 200.0)
    assert (figures["staleness_max"], figures["reward_last"]) == (2.0, None)
    assert {name: own["reward_last"] for name, own in figures["policies"].items()} == {
        "solver": 0.5,
        "verifier": 0.25,
    }
    assert figures["evals"] == {
        "held_out": {
            "policy": "solver",
            "versions": [0, 2],
            "first": {"reward": 0.1, "exact": 0.0},
            "last": {"reward": 0.6, "exact": 0.5},
        }
    }


def test_the_closing_lines_name_policies_and_evals(two: RunDir) -> None:
    assert closing(summary(two.path), two.report).splitlines()[:4] == [
        "unfinished: 5 steps of 2 policies in 2.0 s, 200 tokens/s",
        "solver: 2 steps, exact ? -> ?, reward 0.5 -> 0.5, staleness at most 1",
        "verifier: 3 steps, exact ? -> ?, reward 0.25 -> 0.25, staleness at most 2",
        "held_out: exact 0 -> 0.5, reward 0.1 -> 0.6 from version 0 to 2 of solver",
    ]


def test_the_page_has_a_section_for_each_policy_and_one_for_the_evals(two: RunDir) -> None:
    page = write_html(two.path).read_text(encoding="utf-8")
    assert re.findall(r"<h2>(.*?)</h2>", page)[:3] == ["solver", "verifier", "Evaluations"]
    assert page.count("<strong>Reward</strong>") == 2
    assert "held_out of solver <b>0.6</b>" in page


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunDirError):
        summary(tmp_path)
