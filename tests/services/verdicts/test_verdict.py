from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from headrace.services.verdicts.errors import VerdictRefused
from headrace.services.verdicts.verdict import Invalid, Score, judge


@pytest.mark.parametrize(
    ("returned", "value"),
    [(1, 1.0), (0.25, 0.25), (True, 1.0), (np.float32(0.5), 0.5), (Fraction(1, 4), 0.25)],
)
def test_a_number_is_a_score(returned: Any, value: float) -> None:
    assert judge(returned) == Score(value=value)


def test_a_dict_is_a_score_with_parts() -> None:
    assert judge({"reward": 0.75, "exact": False}) == Score(value=0.75, parts={"exact": 0.0})


def test_none_is_invalid_with_a_reason() -> None:
    assert judge(None) == Invalid(reason="the verifier returned None")


@pytest.mark.parametrize(
    ("returned", "named"),
    [
        (float("nan"), r"reward is nan \(float\)"),
        (float("inf"), r"reward is inf \(float\)"),
        ("1.0", r"reward is '1\.0' \(str\)"),
        ([1.0], r"reward is \[1\.0\] \(list\)"),
        ({"exact": 1.0}, r"a dict with the keys \['exact'\]"),
        ({"reward": 1.0, "note": "good"}, r"note is 'good' \(str\)"),
        ({"reward": None}, r"reward is None \(NoneType\)"),
    ],
)
def test_what_is_no_verdict_is_an_error_and_never_zero(returned: Any, named: str) -> None:
    """A25."""
    with pytest.raises(VerdictRefused, match=named + ".*allowed are a finite number"):
        judge(returned)


def test_a_score_cannot_hold_what_is_not_finite() -> None:
    with pytest.raises(VerdictRefused, match="part 'exact' is nan"):
        Score(value=0.0, parts={"exact": float("nan")})


def test_an_invalid_verdict_says_why() -> None:
    with pytest.raises(VerdictRefused, match="needs a reason"):
        Invalid(reason="")
