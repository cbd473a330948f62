"""The loop benchmark's figures and its length distribution, against numbers worked out by hand."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import countdown  # noqa: E402  # pyright: ignore[reportMissingImports]
import works  # noqa: E402  # pyright: ignore[reportMissingImports]


def test_the_figure_leaves_the_first_five_steps_out_and_takes_the_median_gap():
    marks = [0.0, 9.0, 18.0, 27.0, 36.0, 45.0, 46.0, 48.0, 52.0]
    figures = works.from_marks(marks, tokens=[70.0] * 9, exact=[0.0] * 4 + [0.5] * 5)
    assert figures.seconds_per_step == 2.0
    assert figures.mean_seconds_per_step == pytest.approx(7 / 3)
    assert figures.tokens_per_s == 35.0
    assert figures.exact_last5 == 0.5


def test_too_few_steps_for_a_figure_are_refused():
    with pytest.raises(ValueError, match=r"6 steps were run; .* at least 7: pass --steps"):
        works.from_marks([0.0] * 6, [1.0] * 6, [0.0] * 6)


def test_half_of_the_uncut_log_normal_lies_below_its_median():
    below = sum(countdown.lengths()[:48])
    kept = 0.9530  # mass of the log-normal up to 255.5: the normal's up to ln(255.5 / 48) = 1.672
    assert below == pytest.approx(0.5 / kept, abs=5e-3)


def test_the_mean_answer_has_63_tokens_with_its_end():
    mean, deviation = countdown.moments()
    assert mean == pytest.approx(63.233, abs=1e-3)
    assert 50 < deviation < 60


def test_prompts_have_256_tokens_and_depend_on_the_seed_alone():
    first, second = list(countdown.prompts(2, seed=1))
    assert len(first.split()) == 256
    assert first.endswith(" >")
    assert first != second
    assert first == next(countdown.prompts(1, seed=1))


@pytest.mark.parametrize(
    ("answer", "reward"), [("t4 t3 t2 t1 $", 1.0), ("t3 t2 t1", 0.0), ("$", 0.0), ("", 0.0), ("> t2", 0.0)]
)
def test_the_reward_is_one_where_the_count_begins_even(answer: str, reward: float):
    assert countdown.score(answer, {}) == {"reward": reward, "exact": reward}


def test_a_side_whose_answers_are_too_short_is_refused():
    figures = works.Figures(
        seconds_per_step=1.0,
        mean_seconds_per_step=1.0,
        tokens_per_s=1.0,
        tokens_per_step=1.0,
        exact_last5=0.0,
        details={"steps": 100, "answer_tokens": 100 * 128 * 48},
    )
    with pytest.raises(ValueError, match=r"trl: answers have 48\.0 tokens on average over 12800"):
        works.require_same_lengths(works.LOGNORMAL, "trl", figures)


@pytest.mark.slow
def test_the_counter_counts_down_from_the_lengths_it_was_given(tmp_path: Path):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    subprocess.run([sys.executable, BENCH / "models.py", "lognormal", tmp_path], check=True)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    text = next(countdown.prompts(1, seed=3)) + " " + " ".join(f"t{k}" for k in range(255, 0, -1)) + " $"
    ids = torch.tensor(tokenizer([text], add_special_tokens=False)["input_ids"])
    assert ids.shape == (1, 512)
    with torch.inference_mode():
        probabilities = model(ids).logits[0, 255:511].double().softmax(-1)
    first = probabilities[0, 3 : 3 + 255]
    torch.testing.assert_close(first, torch.tensor(countdown.lengths()).double(), rtol=0.05, atol=1e-4)
    wanted = ids[0, 257:]
    assert probabilities[1:].gather(1, wanted[:, None]).min() > 0.9999


def test_help_names_every_side(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, BENCH / "loop.py", "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert "staleness_1" in done.stdout
