"""Processor time of a side by its steps, and the scores of the SmolLM2 work."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import meter  # pyright: ignore[reportMissingImports]
import sums  # pyright: ignore[reportMissingImports]


def test_a_steps_time_leaves_out_the_warm_up_and_the_last_step():
    done = meter.Done(returncode=0, output="", cpu_s=(1.0, 3.0, 6.0, 9.0, 50.0))
    assert done.cpu_s_per_step(warmup=1) == 3.0
    assert done.cpu_s_per_step(warmup=3) is None


def test_a_mark_is_made_at_each_line_that_ends_a_step(tmp_path: Path):
    program = "print('step 1'); print('between'); print('step 2')"
    with (tmp_path / "errors.txt").open("w") as errors:
        done = meter.run([sys.executable, "-c", program], folder=tmp_path, errors=errors, timeout_s=60)
    assert (done.returncode, done.output) == (0, "step 1\nbetween\nstep 2\n")
    assert len(done.cpu_s) == 2


@pytest.mark.parametrize(
    ("response", "reward", "exact"),
    [
        ("5 + 7 = <answer>12</answer>", 1.0, 1.0),
        ("12", 1.0, 1.0),
        ("<answer>3</answer><answer>12</answer>", 1.0, 1.0),
        ("It is 12", 0.25, 0.0),
        ("<answer>13</answer>", 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_a_sum_is_right_alone_and_its_share_among_other_characters(
    response: str, reward: float, exact: float
):
    assert sums.score(response, {"answer": "12"}) == {"reward": reward, "exact": exact}


def test_questions_follow_from_the_seed_and_come_after_two_solved_ones():
    class Template:
        def apply_chat_template(self, chat: list[dict[str, str]], **_: bool) -> str:
            return " | ".join(turn["content"] for turn in chat)

    first, second = sums.prompts(2, 0, Template())
    assert first["prompt"].startswith(
        "You calculate. | Calculate 9 + 4. | 9 + 4 = <answer>13</answer> | Calculate 2 + 5. | "
        "2 + 5 = <answer>7</answer> | Calculate "
    )
    assert first != second
    assert [first, second] == list(sums.prompts(2, 0, Template()))
