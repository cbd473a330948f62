"""The copy task, learned from answers that vLLM makes and evaluated by them: one key of the graph."""

import importlib.util
from pathlib import Path

import pytest

from headrace.dataflow.record.history import History
from tests.end_to_end.copying import copying
from tests.end_to_end.runs import headrace
from tests.end_to_end.test_eval import WITH_EVAL
from tests.end_to_end.test_learning import assert_learned

pytestmark = pytest.mark.nightly


@pytest.fixture(autouse=True)
def vllm() -> None:
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vllm is not installed; `make vllm` makes an environment with it")


@pytest.mark.parametrize("staleness", [0.0, 1.0])
def test_the_quick_start_learns_with_vllm(tmp_path: Path, staleness: float) -> None:
    ended = headrace(
        "grpo_copy_cpu",
        "answers.engine=vllm",
        f"staleness={staleness:g}",
        "steps=300",
        directory=tmp_path / "run",
    )
    assert_learned(ended, staleness)


@pytest.mark.filterwarnings("ignore")
def test_an_eval_by_vllm_scores_the_versions_that_are_due(tmp_path: Path) -> None:
    asked = ("steps=4", "held_out.engine=vllm", "held_out.every=2", "held_out.prompts=16")
    copying(tmp_path / "run", *asked, text=WITH_EVAL)
    history = History.read(tmp_path / "run")
    exact = dict(history.evals["held_out"].values("eval/held_out/exact"))
    assert list(exact) == [0, 2, 4]
    assert all(0 <= share <= 1 for share in exact.values())
    assert [e["version"] for e in history.events if e["event"] == "evaluated"] == [0, 2, 4]
