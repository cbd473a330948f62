"""Equality of mathematical answers, by the `math-verify` package: a half is 1/2, 0.5 and \\frac{1}{2}.

Of an answer what is boxed counts, several together as a set; else the last expression that is announced as
its end or stands in it.
Neither parsing nor comparing has a limit of its own here: an answer such as 9^{9^{9}} may take for ever, so
this runs in a process that is ended.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from headrace.services.options import MathVerifyVerifier
from headrace.services.verdicts.errors import VerifierUnusable
from headrace.services.verdicts.verdict import Invalid, Score, Verdict

GOLDS_KEPT = 64
"""Right answers that are kept parsed: those of a group come one after the other."""


class MathVerify:
    """`example` holds the right answer; where that cannot be read, every answer to it is invalid."""

    def __init__(self, options: MathVerifyVerifier) -> None:
        """Raises VerifierUnusable."""
        try:
            import math_verify
        except ImportError as error:
            raise VerifierUnusable(
                "verifier math_verify needs a package that is not installed: pip install "
                "'headrace[math-verify]'"
            ) from error
        self._options = options
        self._parse = _parser()
        self._gold = lru_cache(GOLDS_KEPT)(lambda text: self._parse(delimited(text)))
        self._verify = math_verify.verify

    def __call__(self, response: str, example: Mapping[str, Any]) -> Verdict:
        """Raises ValueError where the entry has no right answer."""
        key = self._options.answer_key
        if key not in example:
            raise ValueError(
                f"the data's entry has no {key!r}; it has {', '.join(example) or 'none'}: set "
                "verifier.answer_key to that of the right answer"
            )
        gold = self._gold(str(example[key]))
        if not gold:
            return Invalid(reason=f"the right answer {str(example[key])[:80]!r} cannot be read")
        found = self._parse(response)
        exact = float(bool(found) and self._verify(gold, found, timeout_seconds=None, raise_on_error=True))
        parsed = float(bool(found))
        value = self._options.format_weight * parsed + (1.0 - self._options.format_weight) * exact
        return Score(value=value, parts={"exact": exact, "parsed": parsed})


def delimited(gold: str) -> str:
    """A right answer as it is written in data sets, so that it is read whole.

    Without delimiters an expression such as 2\\sqrt{3} would be read as the number 2.
    """
    answer = gold.rpartition("####")[2].strip()
    return answer if "$" in answer or "\\boxed" in answer else f"\\boxed{{{answer}}}"


def _parser() -> Callable[[str], list[Any]]:
    """What finds expressions in a text: none, or one with its own text after it."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse

    looked_for = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())

    def parsed(text: str) -> list[Any]:
        return parse(text, extraction_config=looked_for, parsing_timeout=0, raise_on_error=True)

    return parsed
