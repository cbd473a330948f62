"""Verifiers by the `kind` of their options; what they need is imported when one is made."""

import dataclasses
from collections.abc import Callable
from typing import Any

from headrace.services.options import CopyVerifier, MathVerifyVerifier, PythonVerifier, ReasoningGymVerifier
from headrace.services.reward.verifiers.base import Verifier
from headrace.services.reward.verifiers.copy import Copy
from headrace.services.reward.verifiers.math_verify import MathVerify
from headrace.services.reward.verifiers.python import PythonFunction
from headrace.services.reward.verifiers.reasoning_gym import ReasoningGym
from headrace.services.verdicts.errors import VerifierUnusable

__all__ = ["VERIFIERS", "Verifier", "from_plain", "make", "to_plain"]

VerifierOptions = CopyVerifier | ReasoningGymVerifier | MathVerifyVerifier | PythonVerifier

VERIFIERS: dict[str, tuple[type[Any], Callable[[Any], Verifier]]] = {
    "copy": (CopyVerifier, Copy),
    "reasoning_gym": (ReasoningGymVerifier, ReasoningGym),
    "math_verify": (MathVerifyVerifier, MathVerify),
    "python": (PythonVerifier, PythonFunction),
}
"""The options' class and the verifier made of them."""


def make(options: VerifierOptions) -> Verifier:
    """The verifier that `options` describe. Raises VerifierUnusable."""
    return VERIFIERS[options.kind][1](options)


def to_plain(options: VerifierOptions) -> dict[str, Any]:
    """Options as a dict that travels to another process, but for the limits, which that has by then."""
    return {name: value for name, value in dataclasses.asdict(options).items() if name != "limits"}


def from_plain(plain: dict[str, Any]) -> VerifierOptions:
    """The inverse of `to_plain`. Raises VerifierUnusable for a kind that is not there."""
    kind = plain.get("kind", "")
    if kind not in VERIFIERS:
        raise VerifierUnusable(f"there is no verifier {kind!r}; there are {', '.join(VERIFIERS)}")
    return VERIFIERS[kind][0](**plain)
