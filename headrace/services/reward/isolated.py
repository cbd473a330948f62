"""A verifier in a process of its own; see `services/isolation`."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace.algorithms.by_path import Place
from headrace.services.isolation.confined import Confinement
from headrace.services.isolation.errors import Died, Raised, TookTooLong, Unusable
from headrace.services.isolation.process import Isolated
from headrace.services.options import MathVerifyVerifier, PythonVerifier, ReasoningGymVerifier
from headrace.services.reward.verifiers import from_plain, make, to_plain
from headrace.services.verdicts.errors import VerdictRefused, VerifierDied, VerifierRaised, VerifierUnusable
from headrace.services.verdicts.verdict import Invalid, Score, Verdict


class IsolatedVerifier:
    """A `Scorer`.

    verifier = IsolatedVerifier(options)
    verdict = await verifier.score("4", {"answer": "4"})
    await verifier.close()
    """

    def __init__(
        self,
        options: ReasoningGymVerifier | MathVerifyVerifier | PythonVerifier,
        *,
        log_file: Path | None = None,
        run_dir: Path | None = None,
    ) -> None:
        """`log_file` takes what the verifier prints; None: this process's stderr does. Where it has limits,
        it cannot read `run_dir`."""
        self._process = Isolated(
            f"{__name__}:served",
            {"options": to_plain(options)},
            noun="verifier",
            timeout_s=options.timeout_s,
            log_file=log_file,
            confinement=_confinement(options, run_dir),
        )

    @property
    def pid(self) -> int | None:
        """Of the process; None while there is none."""
        return self._process.pid

    async def start(self) -> None:
        """Makes the verifier now. Raises VerifierUnusable with the way out."""
        try:
            await self._process.start()
        except Unusable as error:
            raise VerifierUnusable(str(error)) from error

    async def score(self, response: str, example: Mapping[str, Any], **columns: Any) -> Verdict:
        """Invalid after the options' `timeout_s`. Raises RewardError of every kind."""
        told = {"example": json.dumps(example), "columns": json.dumps(columns)}
        try:
            return _verdict(await self._process.ask({"response": response, **told}))
        except TookTooLong as late:
            return Invalid(reason=str(late))
        except Raised as error:
            raise VerifierRaised(str(error)) from error
        except Died as error:
            raise VerifierDied(str(error)) from error
        except Unusable as error:
            raise VerifierUnusable(str(error)) from error

    async def close(self) -> None:
        await self._process.close()


def _confinement(
    options: ReasoningGymVerifier | MathVerifyVerifier | PythonVerifier, run_dir: Path | None
) -> Confinement | None:
    if options.limits is None:
        return None
    file = Place("function").file(options.function) if isinstance(options, PythonVerifier) else None
    return Confinement(
        limits=options.limits,
        read=() if file is None else (path := Path(file).absolute(), path.parent),
        hidden=() if run_dir is None else (run_dir,),
    )


def served(options: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What the process runs: from an answer and the data set's entry to a verdict, all plain."""
    verifier = make(from_plain(options))

    def score(question: dict[str, Any]) -> dict[str, Any]:
        columns = json.loads(question["columns"])
        try:
            return _plain(verifier(question["response"], json.loads(question["example"]), **columns))
        except VerdictRefused as error:
            return {"refused": str(error)}

    return score


def _plain(verdict: Verdict) -> dict[str, Any]:
    if isinstance(verdict, Score):
        return {"value": float(verdict.value), "parts": {k: float(v) for k, v in verdict.parts.items()}}
    return {"invalid": verdict.reason}


def _verdict(answer: dict[str, Any]) -> Verdict:
    if "value" in answer:
        return Score(value=answer["value"], parts=answer["parts"])
    if "invalid" in answer:
        return Invalid(reason=answer["invalid"])
    raise VerdictRefused(answer["refused"])
