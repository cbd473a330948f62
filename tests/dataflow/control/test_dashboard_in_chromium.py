"""The dashboard of a run that goes on, in a real browser: Debian's Chromium, driven by Playwright."""

import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.dataflow.cli import app
from headrace.dataflow.control.door import Door
from tests.end_to_end.runs import ended, events, started, until

playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra `browser`")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(CHROMIUM is None, reason="needs `apt-get install chromium`"),
]

PATIENCE_MS = 120_000
GRAPH = """\
name: live
staleness: 1
steps: 100000
runtime: local
policies:
  actor: {model: tiny-copier}
nodes:
  prompts: {kind: source, dataset: copy, samples_per_prompt: 2, threads: 1}
  answers: {kind: rollout, inputs: [prompts], policy: actor, engine: fake, max_new_tokens: 4, threads: 1,
            fake: {answer: random, mean_tokens: 4, seconds_per_token: 0.02}}
  scores: {kind: reward, inputs: [answers], verifier: copy}
  learn: {kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo, prompts_per_step: 2,
          threads: 1}
"""
HOSTILE = "<img src=x onerror='window.hurt = 1'><script>window.hurt = 1</script>"


@dataclass(frozen=True, slots=True)
class Run:
    """A run that goes on."""

    process: subprocess.Popen[str]
    directory: Path

    @property
    def door(self) -> Door:
        return Door.of(self.directory)

    def asked(self, *command: str) -> str:
        result = CliRunner().invoke(app, [*command, "--run", str(self.directory)])
        assert result.exit_code == 0, result.output or repr(result.exception)
        return result.output


@dataclass(slots=True)
class Seen:
    """What a page asked for, and what it complained of."""

    hosts: set[str] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("dashboard")
    (folder / "live.yaml").write_text(GRAPH)
    with started(str(folder / "live.yaml"), directory=folder / "run") as process:
        until(process, lambda line: line.startswith("step 1/"))
        yield Run(process, folder / "run")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture(params=[(390, "light"), (1440, "dark")], ids=["phone", "desktop"])
def page(browser: Any, run: Run, seen: Seen, request: pytest.FixtureRequest) -> Iterator[Any]:
    width, scheme = request.param
    opened = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    opened.set_default_timeout(PATIENCE_MS)
    opened.on("request", lambda each: seen.hosts.add(each.url.split("/")[2]))
    opened.on("console", lambda each: seen.complaints.append(each.text) if each.type == "error" else None)
    opened.on("pageerror", lambda each: seen.complaints.append(str(each)))
    opened.goto(f"{run.door.url}/?token={run.door.token}")
    yield opened
    opened.close()


@pytest.fixture
def stands(run: Run, page: Any) -> Iterator[None]:
    """The run does for as long as the test takes, so that what is shown stays."""
    run.asked("pause", "--why", "to look")
    until_says(page, "#contact", "paused by")
    yield
    run.asked("resume")


def until_says(page: Any, selector: str, text: str) -> None:
    playwright.expect(page.locator(selector)).to_contain_text(text, timeout=PATIENCE_MS)


def shown(page: Any, nodes: Iterable[str]) -> dict[str, Any]:
    """The page's figures, in the words of `told`."""
    tasks, replicas = {}, []
    for node in nodes:
        page.locator(f'[data-node="{node}"]').click()
        until_says(page, "#node-title", node)
        entries = page.locator("#node-figures > div").all()
        figures = {each.locator("dt").inner_text(): each.locator("dd").inner_text() for each in entries}
        tasks[node] = [figures[name] for name in ("rows ready", "held", "waiting")]
        replicas += page.locator("#replicas b").all_inner_texts()
    rows = page.locator("#staleness tbody tr").all()
    trained = {row.locator("th").inner_text(): row.locator(".number").first.inner_text() for row in rows}
    return {
        "steps": page.locator("#steps span").all_inner_texts(),
        "tasks": tasks,
        "replicas": replicas,
        "trained": {staleness: count.split()[0] for staleness, count in trained.items() if count[0] != "0"},
    }


def told(run: Run) -> dict[str, Any]:
    """What `headrace ps` says."""
    found = json.loads(run.asked("ps", "--json"))
    table, actor = found["tables"]["prompts"], found["steps"]["actor"]
    tasks = {
        node: [str(t[key]) for key in ("ready", "leased", "waiting")] for node, t in table["tasks"].items()
    }
    names = [each["replica"] for each in found["replicas"]]
    return {
        "steps": [f"actor: step {actor['done']} of {actor['of']}"],
        "tasks": tasks,
        "replicas": [name for node in tasks for name in names if name.startswith(f"{node}/")],
        "trained": {staleness: str(count) for staleness, count in table["staleness_trained"].items()},
    }


@pytest.mark.usefixtures("stands")
def test_a_run_that_stands_is_shown_as_ps_says_it(run: Run, page: Any, seen: Seen) -> None:
    """Once all that was under way has come to its end."""
    said = told(run)
    while shown(page, said["tasks"]) != said:
        page.wait_for_timeout(500)
        said = told(run)
    assert sorted(said["tasks"]) == ["answers", "learn", "scores"]
    assert (seen.hosts, seen.complaints) == ({run.door.url.removeprefix("http://")}, [])


@pytest.mark.usefixtures("stands")
def test_nothing_of_it_lies_beside_the_screen(page: Any) -> None:
    page.locator("#samples details summary").first.click()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_service_is_scaled_from_it_by_the_keyboard_and_the_reason_is_recorded(run: Run, page: Any) -> None:
    page.locator('[data-node="answers"]').focus()
    page.keyboard.press("Enter")
    until_says(page, "#node-title", "answers")
    before = len(json.loads(run.asked("ps", "--json"))["replicas"])
    page.get_by_role("button", name="+ Add one").press("Enter")
    page.get_by_label("why").fill("more of it")
    page.keyboard.press("Enter")
    until_says(page, "#said", "answers 1 → 2: added answers/1")
    asked = events(run.directory, "asked")[-1]
    assert (asked["action"], asked["why"], asked["who"]) == ("scale", "more of it", "browser")
    page.get_by_role("button", name="Drain answers/1").click()
    page.get_by_role("button", name="Leave it").click()
    assert events(run.directory, "asked")[-1] == asked
    page.get_by_role("button", name="Drain answers/1").click()
    page.get_by_role("button", name="Do it").click()
    until_says(page, "#said", "answers 2 → 1: drained answers/1")
    assert len(json.loads(run.asked("ps", "--json"))["replicas"]) >= before


@pytest.mark.usefixtures("stands")
def test_what_a_model_answers_stays_text(page: Any, seen: Seen) -> None:
    def forged(route: Any) -> None:
        answer = route.fetch().json()
        for sample in answer["samples"]:
            sample |= {"prompt": HOSTILE, "answer": HOSTILE, "finish_reason": HOSTILE, "uid": HOSTILE}
            sample["parts"] = {HOSTILE: 1.0}
        route.fulfill(json=answer)

    page.route("**/v1/samples?*", forged)
    page.locator("#filter [name=order]").select_option("best")
    entry = page.locator("#samples details", has_text="onerror")
    playwright.expect(entry).not_to_have_count(0, timeout=PATIENCE_MS)
    entry = entry.first
    entry.locator("summary").click()
    assert entry.locator("pre").all_inner_texts() == [HOSTILE, HOSTILE]
    assert page.locator("#samples img, #samples script").count() == 0
    assert page.evaluate("window.hurt") is None


@pytest.mark.usefixtures("stands")
def test_a_sample_shows_its_way_through_the_services(page: Any) -> None:
    page.locator("#samples details summary").first.click()
    way = page.locator("#samples details[open] .way")
    until_says(page, "#samples details[open] .way caption", "trained on")
    stages = [stage.partition("/")[0] for stage in way.locator("th").all_inner_texts()]
    assert stages == [
        "waits for answers",
        "answers",
        "waits for scores",
        "scores",
        "waits for learn",
        "learn",
    ]


def test_a_launch_that_has_ended_leaves_its_last_state_and_says_so(run: Run, browser: Any) -> None:
    page = browser.new_page()
    page.goto(f"{run.door.url}/?token={run.door.token}")
    until_says(page, "#contact", "live")
    run.asked("stop", "--why", "enough")
    until_says(page, "#contact", "this launch has ended")
    assert page.locator("#replicas li").count() >= 1
    assert ended(run.process, run.directory).code == 130
