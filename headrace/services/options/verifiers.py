"""What scores an answer."""

from dataclasses import dataclass, field
from typing import Literal

from headrace.algorithms.bounds import Positive, Share
from headrace.algorithms.by_path import FunctionPath
from headrace.services.options.limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyVerifier:
    """`exact_weight` for the whole word, the rest for the share of right positions; reports `exact`."""

    kind: Literal["copy"] = "copy"
    exact_weight: Share = 0.5
    """Part of the reward given for an exact answer only, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningGymVerifier:
    """The task set's own `score_answer`; `exact` is 1 where the score is 1."""

    kind: Literal["reasoning_gym"] = "reasoning_gym"
    timeout_s: Positive = 10.0
    """Seconds one answer may take; beyond, the verifier's process is replaced and the row is invalid."""
    limits: Limits | None = field(default_factory=Limits)
    """What its process may use; null: all that the run's user may."""
    format_weight: Share = 0.0
    """Part of the reward given for an answer that has the asked form, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonVerifier:
    """A function of yours, `function(response: str, example: dict) -> float`, run in a process of its own."""

    kind: Literal["python"] = "python"
    function: FunctionPath
    """Where it is: `module:function`, or `path/to/file.py:function`."""
    columns: tuple[str, ...] = ()
    """Further columns that it reads, each a keyword argument of that name; null where a number is missing."""
    timeout_s: Positive = 10.0
    """Seconds one answer may take; beyond, the verifier's process is replaced and the row is invalid."""
    limits: Limits | None = field(default_factory=Limits)
    """What its process may use; null: all that the run's user may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MathVerifyVerifier:
    """1 for an answer that the `math-verify` package finds equal to the data's, else 0; reports `parsed`."""

    kind: Literal["math_verify"] = "math_verify"
    answer_key: str = "answer"
    """Key of the right answer in the data's entry: LaTeX or an expression, what stands after a last ####."""
    timeout_s: Positive = 10.0
    """Seconds one answer may take; beyond, the verifier's process is replaced and the row is invalid."""
    limits: Limits | None = field(default_factory=Limits)
    """What its process may use; null: all that the run's user may."""
    format_weight: Share = 0.0
    """Part of the reward given for an answer in which there is an expression at all, from 0 to 1."""


Verifier = CopyVerifier | ReasoningGymVerifier | MathVerifyVerifier | PythonVerifier
