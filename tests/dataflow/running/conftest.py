"""What launches of these tests stand on."""

from pathlib import Path

import pytest


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own in place of shared memory."""
    folder = tmp_path / "shared"
    folder.mkdir()
    monkeypatch.setattr("headrace.dataflow.running.launch.root", lambda: folder)
    return folder
