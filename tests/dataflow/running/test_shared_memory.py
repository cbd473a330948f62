"""Folders that go with their launcher, however it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.dataflow.running.locks import LOCK, Held, held, is_orphan
from headrace.dataflow.running.shared_memory import PREFIX, owned_folder, root, sweep

HOLD = """
import sys
from pathlib import Path
from headrace.dataflow.running.shared_memory import owned_folder
with owned_folder(Path(sys.argv[1])) as folder:
    (folder / "cells").write_text("...")
    print(folder, flush=True)
    sys.stdin.read()
"""


def holder(parent: Path) -> "tuple[subprocess.Popen[str], Path]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_folder_is_there_for_its_block_and_gone_after_it_with_all_that_it_holds(tmp_path: Path) -> None:
    with owned_folder(tmp_path) as folder:
        (folder / "queue").mkdir()
        (folder / "queue" / "cells").write_text("...")
        assert folder.parent == tmp_path and folder.name.startswith(PREFIX)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_goes_when_its_block_raises(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), owned_folder(tmp_path):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_launcher_is_removed_by_the_next_and_a_live_one_s_is_not(
    tmp_path: Path,
) -> None:
    process, theirs = holder(tmp_path)
    try:
        with owned_folder(tmp_path) as ours:
            assert sweep(tmp_path) == []
            assert theirs.is_dir() and ours.is_dir()
            process.kill()
            process.wait()
            assert sweep(tmp_path) == [theirs]
            assert ours.is_dir()
    finally:
        process.kill()
        process.communicate()
    assert list(tmp_path.iterdir()) == []


def test_folders_that_were_never_held_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}someone-else").mkdir()
    assert sweep(tmp_path) == []
    assert not is_orphan(tmp_path / f"{PREFIX}someone-else")


def test_a_held_folder_is_refused_to_the_next_until_it_is_free(tmp_path: Path) -> None:
    with held(tmp_path):
        assert not is_orphan(tmp_path)
        with pytest.raises(Held, match="another process holds"), held(tmp_path):
            pass
    assert is_orphan(tmp_path)
    with held(tmp_path):
        assert (tmp_path / LOCK).is_file()


def test_the_root_is_shared_memory_where_there_is_one() -> None:
    assert root() == Path("/dev/shm") or not Path("/dev/shm").is_dir()
