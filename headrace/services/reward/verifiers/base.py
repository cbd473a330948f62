"""What a verifier is: an answer's text and the data set's entry in, a verdict out."""

from collections.abc import Mapping
from typing import Any, Protocol

from headrace.services.verdicts.verdict import Verdict


class Verifier(Protocol):
    def __call__(self, response: str, example: Mapping[str, Any]) -> Verdict:
        """`response`: the decoded answer without special tokens. Whatever it raises is an error to retry."""
        ...
