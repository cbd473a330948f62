"""A path of the GPU check costs no other path anything, however it ends; and the paths hold on a CPU."""

import json
import subprocess
import sys
from pathlib import Path as File

import psutil
import pytest

from bench.gpu_check.path import Path, at_most
from bench.gpu_check.verdicts import Outcome, run

ROOT = File(__file__).resolve().parents[2]


def tried(function: str, folder: File, *, limit_s: float = 60.0, needs: tuple[str, ...] = ()) -> Outcome:
    path = Path(name="one", call=f"tests.bench.gpu_paths:{function}", limit_s=limit_s, needs=needs)
    return run(path, "cpu", folder, limit_s)


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_a_path_that_holds_tells_its_figures(tmp_path: File) -> None:
    found = tried("holds", tmp_path)
    assert (found.verdict, found.reason, found.figures) == ("PASS", "gpus 0", {"gpus": 0.0})
    assert str(found).startswith("PASS one ")


def test_a_path_that_is_off_or_lacks_something_says_by_what(tmp_path: File) -> None:
    off = tried("is_off", tmp_path)
    assert (off.verdict, off.reason) == (
        "FAIL",
        "AssertionError: difference of losses is 0.5, at most 0.25 was due",
    )
    lacks = tried("says_what_it_needs", tmp_path)
    assert (lacks.verdict, lacks.reason) == ("SKIP", "no second card beside 0")
    package = tried("holds", tmp_path, needs=("no_such_package.core",))
    assert (package.verdict, package.reason) == ("SKIP", "no_such_package.core is not installed")


def test_a_crash_is_the_failure_of_its_path(tmp_path: File) -> None:
    found = tried("crashes", tmp_path)
    assert found.verdict == "FAIL"
    assert found.reason == (
        f"its process ended with code 3; last of {tmp_path / 'one.log'}: illegal memory access"
    )


def test_a_path_that_hangs_is_ended_with_its_children(
    tmp_path: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHILD", str(tmp_path / "child"))
    found = tried("hangs_with_a_child", tmp_path, limit_s=3.0)
    assert found.verdict == "FAIL"
    assert found.reason.startswith("no end after 3 s; ")
    child = tmp_path / "child"
    assert not child.is_file() or not _runs(int(child.read_text()))


def _runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_no_number_is_within_no_limit() -> None:
    with pytest.raises(AssertionError, match=r"loss is nan, at most 1 was due"):
        at_most("loss", float("nan"), 1.0)


@pytest.mark.nightly
def test_every_path_holds_on_a_cpu() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "bench.gpu_check", "--device", "cpu"], capture_output=True, text=True
    )
    found = json.loads(ended.stdout.splitlines()[-1])
    assert {name for name, path in found["paths"].items() if path["verdict"] == "FAIL"} == set()
    assert found["paths"]["torch_trainer"]["verdict"] == "PASS"
    assert ended.returncode == 0
