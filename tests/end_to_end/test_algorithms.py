"""Algorithms by name, and one of a user's own file, through the real engine."""

import re
from pathlib import Path

import pytest

from tests.end_to_end.runs import headrace

KINDS = (
    *("dr_grpo", "dapo", "gspo", "gspo_token", "cispo", "rapid", "topr", "m2po", "reinforce_pp", "rloo"),
    *("decoupled_ppo", "tis", "icepop", "pacs", "rover"),
)
DOCS = Path(__file__).parents[2] / "docs" / "algorithms.md"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_algorithm_by_name_raises_the_reward_of_the_copy_task(tmp_path: Path, kind: str) -> None:
    ended = headrace(
        "grpo_copy_cpu",
        f"learn.algorithm={kind}",
        "answers.max_new_tokens=8",
        "runtime=local",
        "steps=60",
        directory=tmp_path / "run",
    )
    assert ended.code == 0, ended.err
    rewards = [step["reward/mean"] for step in ended.steps]
    assert sum(rewards[-5:]) > 2.0 * sum(rewards[:5])
    assert all(step["actor/skipped"] == 0.0 for step in ended.steps)


@pytest.mark.slow
def test_an_algorithm_of_ones_own_file_trains_by_its_path(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    (tmp_path / "my_algorithm.py").write_text(example)
    ended = headrace(
        "grpo_copy_cpu",
        f"learn.algorithm={{kind: python, path: {tmp_path}/my_algorithm.py:Reinforce}}",
        "runtime=local",
        "steps=3",
        directory=tmp_path / "run",
    )
    assert ended.code == 0, ended.err
    assert [step["actor/skipped"] for step in ended.steps] == [0.0, 0.0, 0.0]
    assert all(step["actor/grad_norm"] > 0.0 for step in ended.steps)
