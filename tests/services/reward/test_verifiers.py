import sys
from pathlib import Path

import pytest

from headrace.services.options import CopyVerifier, PythonVerifier, ReasoningGymData, ReasoningGymVerifier
from headrace.services.reward.verifiers import from_plain, make, to_plain
from headrace.services.source.datasets import open_dataset
from headrace.services.verdicts.errors import VerifierUnusable
from headrace.services.verdicts.verdict import Score


def peer_reward(completion: str, answer: str) -> float:
    """The reward of the TRL script that the engine is measured against, line by line."""
    right = completion.replace(" ", "").split("$")[0]
    exact = float(right == answer)
    share = sum(p == q for p, q in zip(right, answer, strict=False)) / max(len(answer), len(right), 1)
    return 0.5 * exact + 0.5 * share


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("abca", 1.0),
        ("a b c a", 1.0),
        ("abc", 0.5 * 3 / 4),
        ("abcab", 0.5 * 4 / 5),
        ("xbca", 0.5 * 3 / 4),
        ("", 0.0),
        ("acba", 0.5 * 2 / 4),
    ],
)
def test_the_copy_reward_is_the_peers(response: str, value: float) -> None:
    verdict = make(CopyVerifier())(response, {"answer": "abca"})
    assert isinstance(verdict, Score)
    assert verdict.value == value == peer_reward(response, "abca")
    assert verdict.parts["exact"] == float(value == 1.0)


@pytest.mark.parametrize(("exact_weight", "value"), [(0.0, 0.75), (0.2, 0.6), (1.0, 0.0)])
def test_exact_weight_is_kept_for_the_whole_word(exact_weight: float, value: float) -> None:
    verdict = make(CopyVerifier(exact_weight=exact_weight))("abcx", {"answer": "abca"})
    assert isinstance(verdict, Score) and verdict.value == pytest.approx(value)


def sum_example() -> dict[str, object]:
    pytest.importorskip("reasoning_gym")
    return open_dataset(ReasoningGymData(task="chain_sum", size=5), seed=3)[2].example


def test_reasoning_gym_scores_what_stands_in_the_last_answer_tags() -> None:
    example = sum_example()
    answer = example["entry"]["answer"]  # type: ignore[index]
    verifier = make(ReasoningGymVerifier(format_weight=0.25))
    response = f"first <answer>0</answer>, no: <answer> {answer}\n</answer>."
    assert verifier(response, example) == Score(
        value=1.0, parts={"exact": 1.0, "correct": 1.0, "format": 1.0}
    )


def test_an_answer_without_tags_is_scored_whole_and_misses_the_format() -> None:
    example = sum_example()
    answer = str(example["entry"]["answer"])  # type: ignore[index]
    verifier = make(ReasoningGymVerifier(format_weight=0.25))
    assert verifier(f" {answer} ", example) == Score(
        value=0.75, parts={"exact": 1.0, "correct": 1.0, "format": 0.0}
    )
    padded = verifier(f"it is {answer}", example)
    correct = len(answer) / (len(answer) + 6)
    assert isinstance(padded, Score)
    assert padded.parts == {"exact": 0.0, "correct": pytest.approx(correct), "format": 0.0}


def test_a_function_is_found_in_a_file_and_can_import_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "neighbour_of_verifier.py").write_text("BONUS = 0.25\n")
    (tmp_path / "mine.py").write_text(
        "from neighbour_of_verifier import BONUS\n"
        "def score(response, example):\n"
        "    return {'reward': BONUS + example['x'], 'length': len(response)}\n"
    )
    verifier = make(PythonVerifier(function=f"{tmp_path}/mine.py:score"))
    assert verifier("abc", {"x": 0.5}) == Score(value=0.75, parts={"length": 3.0})


def test_a_function_is_found_in_a_module() -> None:
    verifier = make(PythonVerifier(function="operator:ne"))
    assert verifier("abc", {"x": 1}) == Score(value=1.0)


@pytest.mark.parametrize(
    ("function", "named"),
    [
        ("score", "must be `module:function` or `path/to/file.py:function`"),
        ("operator:", "must be `module:function`"),
        ("no_such_module_here:f", "cannot import 'no_such_module_here'"),
        ("operator:containss", "operator has no function 'containss'; it has .*contains"),
        ("/nowhere/mine.py:score", "there is no file /nowhere/mine.py"),
    ],
)
def test_a_function_that_is_not_there_is_refused_with_the_way_out(function: str, named: str) -> None:
    with pytest.raises(VerifierUnusable, match=named):
        make(PythonVerifier(function=function))


@pytest.mark.parametrize(
    "options",
    [CopyVerifier(exact_weight=0.25), ReasoningGymVerifier(timeout_s=3.0), PythonVerifier(function="a:b")],
)
def test_options_travel_to_another_process(options: CopyVerifier) -> None:
    assert from_plain(to_plain(options)) == options


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(
        VerifierUnusable, match="no verifier 'magic'; there are copy, reasoning_gym, math_verify, python"
    ):
        from_plain({"kind": "magic"})


@pytest.mark.parametrize(
    ("response", "correct"),
    [("<answer>7</answer>", 1.0), ("7", 1.0), ("<answer>8</answer>", 0.0), ("<answer></answer>", 0.0)],
)
def test_reasoning_gym_scores_an_entry_that_was_written_by_hand(response: str, correct: float) -> None:
    pytest.importorskip("reasoning_gym")
    entry = {"question": "3 + 4 =", "answer": "7", "metadata": {"source_dataset": "chain_sum"}}
    verdict = make(ReasoningGymVerifier())(response, {"task": "chain_sum", "config": {}, "entry": entry})
    assert isinstance(verdict, Score)
    assert (verdict.value, verdict.parts["exact"]) == (correct, correct)
