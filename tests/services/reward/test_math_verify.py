"""Mathematical equality, against answers that were worked out by hand."""

import sys
from typing import Any

import pytest

from headrace.services.options import MathVerifyVerifier
from headrace.services.reward.isolated import IsolatedVerifier
from headrace.services.reward.verifiers import make
from headrace.services.reward.verifiers.math_verify import delimited
from headrace.services.verdicts.errors import VerifierUnusable
from headrace.services.verdicts.verdict import Invalid, Score

pytest.importorskip("math_verify")


def score(response: str, gold: Any, **options: Any) -> Any:
    return make(MathVerifyVerifier(**options))(response, {"answer": gold})


@pytest.mark.parametrize(
    ("gold", "response", "exact"),
    [
        ("42", "6 times 7, so the answer is 42.", 1.0),
        ("42", "the answer is 43", 0.0),
        (42, r"\boxed{42.0}", 1.0),
        ("half of it\n#### 1/2", "0.5", 1.0),
        (r"\frac{1}{2}", r"so \boxed{0.5}", 1.0),
        (r"2\sqrt{3}", r"\boxed{\sqrt{12}}", 1.0),
        (r"2\sqrt{3}", "2", 0.0),
        (r"$\{1, 2\}$", r"\boxed{\{2,1\}}", 1.0),
        ("x=3", r"\boxed{3}", 1.0),
        ("1,000", "1000", 1.0),
        ("43", r"\boxed{42}, though some say 43", 0.0),
        ("42", r"\boxed{41} or \boxed{42}", 0.0),
    ],
)
def test_answers_are_compared_by_what_they_mean(gold: Any, response: str, exact: float) -> None:
    assert score(response, gold) == Score(value=exact, parts={"exact": exact, "parsed": 1.0})


def test_an_answer_without_an_expression_is_wrong_and_misses_the_format() -> None:
    assert score("no idea", "42", format_weight=0.25) == Score(value=0.0, parts={"exact": 0.0, "parsed": 0.0})
    assert score("41", "42", format_weight=0.25) == Score(value=0.25, parts={"exact": 0.0, "parsed": 1.0})
    assert score("42", "42", format_weight=0.25) == Score(value=1.0, parts={"exact": 1.0, "parsed": 1.0})


def test_a_right_answer_that_cannot_be_read_makes_every_answer_to_it_invalid() -> None:
    assert score("42", "") == Invalid(reason="the right answer '' cannot be read")


def test_an_entry_without_a_right_answer_is_an_error_that_names_its_keys() -> None:
    with pytest.raises(ValueError, match=r"entry has no 'solution'; it has answer: set verifier.answer_key"):
        score("42", "42", answer_key="solution")


def test_bare_expressions_are_delimited_so_that_they_are_read_whole() -> None:
    assert delimited(r"2\sqrt{3}") == r"\boxed{2\sqrt{3}}"
    assert delimited("so 6\n#### 6") == r"\boxed{6}"
    assert delimited(r"it is $\frac12$") == r"it is $\frac12$"


async def test_an_answer_that_takes_for_ever_is_invalid() -> None:
    verifier = IsolatedVerifier(MathVerifyVerifier(timeout_s=1.0))
    try:
        late = await verifier.score(r"\boxed{9^{9^{9}}}", {"answer": "42"})
    finally:
        await verifier.close()
    assert late == Invalid(reason="the verifier took longer than 1 s")


def test_a_missing_package_is_told_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "math_verify", None)
    with pytest.raises(VerifierUnusable, match=r"pip install 'headrace\[math-verify\]'"):
        make(MathVerifyVerifier())
