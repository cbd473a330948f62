import math

import pytest

from headrace.services.judge.template import Missing, fault_of, fill, unknown_fields, verdict
from headrace.services.options import JudgeOptions
from headrace.services.verdicts.verdict import Invalid, Score

DEFAULT = JudgeOptions(base_url="", model="", template="").pattern


def test_fields_are_filled_in_and_other_braces_are_text() -> None:
    template = 'Q: {prompt} A: {response} Gold: {example.gold}, {example.meta.level}. Reply {"score": 1}'
    example = {"gold": "7", "meta": {"level": [1, 2]}}
    assert fill(template, prompt="3+4", response="8", example=example) == (
        'Q: 3+4 A: 8 Gold: 7, [1, 2]. Reply {"score": 1}'
    )


def test_what_an_answer_says_in_braces_is_not_filled_in() -> None:
    filled = fill("{response}|{example.gold}", prompt="p", response="{example.gold}", example={"gold": "7"})
    assert filled == "{example.gold}|7"


def test_an_entry_without_the_key_is_missing_it() -> None:
    with pytest.raises(Missing, match=r"its entry has no 'gold'"):
        fill("{example.gold}", prompt="", response="", example={"answer": "7"})


def test_words_in_braces_that_stand_for_nothing_are_found() -> None:
    assert list(unknown_fields("{promt} {response} {example} {example.} {example.gold} {promt}")) == [
        "promt",
        "example",
        "example.",
    ]


def test_a_pattern_must_compile_and_have_a_group() -> None:
    assert fault_of(DEFAULT) is None
    assert fault_of("[0-9]+") == "'[0-9]+' has no group, which would hold the score"
    assert (fault_of("([0-9]+") or "").startswith("'([0-9]+' is no regular expression: missing )")


@pytest.mark.parametrize(
    ("reply", "score"),
    [("8", 0.8), ("I would say -2.5\n", -0.25), ("3 of 10 is low, so: .5", 0.05), ("Score: 7", 0.7)],
)
def test_the_default_pattern_reads_the_number_at_the_end(reply: str, score: float) -> None:
    found = verdict(reply, DEFAULT, scale=10.0, parts={})
    assert isinstance(found, Score) and math.isclose(found.value, score)


def test_the_last_match_counts() -> None:
    reply = "Score: 3 at first. On reflection, Score: 5 it is"
    assert verdict(reply, r"Score: (\d+)", scale=1.0, parts={"judge_tokens": 9.0}) == Score(
        value=5.0, parts={"judge_tokens": 9.0}
    )


@pytest.mark.parametrize(
    ("reply", "pattern", "reason"),
    [
        ("no idea", DEFAULT, "no score in the reply"),
        ("", DEFAULT, "no score in the reply"),
        ("verdict: good", r"verdict: (\w+)", "the score is no number"),
        ("verdict: nan", r"verdict: (\w+)", "the score is no number"),
        ("x", r"x(\d)?", "no score in the reply"),
    ],
)
def test_a_reply_without_a_score_is_invalid(reply: str, pattern: str, reason: str) -> None:
    assert verdict(reply, pattern, scale=1.0, parts={}) == Invalid(reason=reason)
