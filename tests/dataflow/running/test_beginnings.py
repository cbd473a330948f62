"""Where a run begins whose checkpoints are kept elsewhere too."""

from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from headrace.dataflow.language.parse import parse
from headrace.dataflow.record.rundir import RunDir
from headrace.dataflow.running.beginnings import Beginnings, StoreUnreachable
from tests.services.bench import Remembered
from tests.services.trainer.test_checkpoint import write

GRAPH = (Path(__file__).parents[3] / "configs" / "grpo_copy_cpu.yaml").read_text()


class Deaf(LocalFileSystem):
    protocol = "deaf"

    def exists(self, path: str, **told: Any) -> bool:
        raise ConnectionError("nobody answers")


def test_a_store_that_cannot_be_asked_keeps_a_run_from_beginning_anew_and_no_other(tmp_path: Path) -> None:
    fsspec.register_implementation("deaf", Deaf, clobber=True)
    spec = parse(GRAPH, overrides=["learn.checkpoint_store=deaf://bucket/run"]).spec
    run, report = RunDir.create(spec.name, tmp_path / "run"), Remembered()
    beginnings = Beginnings(spec, run, report)
    with pytest.raises(
        StoreUnreachable, match=r"of policy 'actor' cannot be asked.*nobody answers; have it answer"
    ):
        beginnings.of_table("prompts")
    path = write(run.checkpoints, 3)
    start = beginnings.of_table("prompts")
    assert (start.step, start.checkpoint) == (3, path)
    assert [kind for kind, _ in report.events] == ["checkpoint_not_fetched"] * 2
