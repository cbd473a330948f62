"""A back end of several ranks, as the trainer sees it: one, whose calls are made in every rank in step.

    ranks = RankedBackend(setup, log_file=...)     starts the other ranks, joins them, loads the model in all
    ranks.accumulate(samples, algorithm)           told to all, done here too, and over when all are done
    ranks.close()

States: whole -> broken (a rank was lost, or they disagreed) | closed. Invariant: a broken one takes no
call, and no process of it is left.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from headrace.algorithms.base import Algorithm
from headrace.services.errors import RanksFailed
from headrace.services.trainer.backend import EVERYWHERE, StepResult
from headrace.services.trainer.ranks.process import RankLost, RankProcess
from headrace.services.trainer.ranks.setup import Opened, Setup, join, leave, open_rank
from headrace.services.trainer.ranks.wire import pack
from headrace.services.trainer.samples import Samples

if TYPE_CHECKING:
    from concurrent.futures import Future

    import torch
    from transformers import PreTrainedTokenizerBase

T = TypeVar("T")

START_TIMEOUT_S = 120.0
"""Seconds for imports and the model, on top of the wait for a call."""
LAST_WORDS_S = 10.0
"""Seconds for a rank to say why it failed, once another has."""


class RankedBackend:
    """A `Backend`. Raises RanksFailed, from any call, naming the rank that was lost and of what."""

    def __init__(self, setup: Setup, *, log_file: Callable[[int], Path]) -> None:
        """`log_file`: of a rank from 1 on. Raises RanksFailed where a rank does not come up."""
        self._timeout_s = setup.timeout_s
        self._rendezvous = setup.rendezvous
        self._broken: str | None = None
        self._others = [RankProcess(rank, log_file(rank)) for rank in range(1, setup.parallel.processes)]
        told = {other.rank: pack({"setup": setup, "rank": other.rank}) for other in self._others}
        try:
            for other in self._others:
                other.send(told[other.rank], time.monotonic() + START_TIMEOUT_S)
        except RankLost:
            self._settle("starting", None, time.monotonic())
            raise
        self._settle("starting", None, time.monotonic() + START_TIMEOUT_S)
        self._own = self._together(
            "loading",
            pack({"call": "open", "arguments": []}),
            lambda: _opened(setup),
            timeout_s=START_TIMEOUT_S + setup.timeout_s,
        )

    @property
    def tokenizer(self) -> "PreTrainedTokenizerBase":
        return self._own.tokenizer

    @property
    def processes(self) -> tuple[int, ...]:
        """Ids of those of the other ranks, from rank 1 on."""
        return tuple(other.pid for other in self._others)

    def accumulate(self, samples: Samples, algorithm: Algorithm) -> dict[str, float]:
        return self._call("accumulate", samples, algorithm)

    def step(self, step: int) -> StepResult:
        return self._call("step", step)

    def discard(self) -> None:
        self._call("discard")

    def before(
        self,
        prompt_ids: Sequence[np.ndarray],
        response_ids: Sequence[np.ndarray],
        groups: np.ndarray,
        names: Sequence[str] = (),
    ) -> dict[str, list[np.ndarray]]:
        return self._call("before", list(prompt_ids), list(response_ids), groups, tuple(names))

    def prepared(self, samples: Samples, algorithm: Algorithm) -> Samples:
        return self._call("prepared", samples, algorithm)

    def weights(self) -> "dict[str, torch.Tensor]":
        return self._call("weights")

    def save(self, directory: Path) -> None:
        self._call("save", directory)

    def snapshot(self) -> None:
        self._call("snapshot")

    def write(self, directory: Path) -> "Future[None]":
        return self._call("write", directory)

    def written(self) -> None:
        self._call("written")

    def load(self, directory: Path) -> None:
        self._call("load", directory)

    def close(self) -> None:
        """Ends all other ranks."""
        self._broken = self._broken or "they were closed"
        for other in self._others:
            other.end()
        self._others = []
        leave()
        self._rendezvous.unlink(missing_ok=True)

    def _call(self, name: str, *arguments: Any) -> Any:
        """Makes a call in every rank."""
        return self._together(
            name,
            pack({"call": name, "arguments": [_sendable(each) for each in arguments]}),
            lambda: getattr(self._own.backend, name)(*arguments),
            timeout_s=self._timeout_s,
        )

    def _together(self, doing: str, frame: bytes, own: Callable[[], T], *, timeout_s: float) -> T:
        """Has the others do what `frame` says and does `own` meanwhile; over when all are done."""
        if self._broken is not None:
            raise RanksFailed(f"the trainer's ranks take no call: {self._broken}")
        deadline = time.monotonic() + timeout_s
        try:
            for other in self._others:
                other.send(frame, deadline)
            result = own()
        except Exception as error:
            self._settle(doing, error, min(deadline, time.monotonic() + LAST_WORDS_S))
            raise
        self._settle(doing, None, deadline)
        return result

    def _settle(self, doing: str, failed: Exception | None, deadline: float) -> None:
        """Waits for the others. Returns where all ranks came to the same: none failed, or all alike. Raises
        RanksFailed where they did not."""
        faults = [fault for other in self._others if (fault := _fault(other, deadline)) is not None]
        if failed is None and not faults:
            return
        name = type(failed).__name__
        alike = len(faults) == len(self._others) and all(fault.raised == name for fault in faults)
        if alike and isinstance(failed, EVERYWHERE):
            return
        lost = sorted(faults, key=lambda fault: fault.raised != "")
        told = "; ".join(fault.text for fault in lost) or f"rank 0 raised {name}: {failed}"
        self._broken = f"{doing}: {told}"
        self.close()
        if not alike:
            raise RanksFailed(f"the trainer's ranks cannot go on; {self._broken}") from failed


@dataclass(frozen=True, slots=True)
class _Fault:
    raised: str
    """Type of the error; empty, where the rank is lost."""
    text: str


def _fault(other: RankProcess, deadline: float) -> _Fault | None:
    """What came of a rank's call; None: it is done."""
    try:
        answer = other.answer(deadline)
    except RankLost as lost:
        return _Fault("", str(lost))
    if not answer:
        return None
    return _Fault(answer["raised"], f"rank {other.rank} raised {answer['raised']}: {answer['text']}")


def _opened(setup: Setup) -> Opened:
    join(setup, 0)
    return open_rank(setup, 0)


def _sendable(argument: Any) -> Any:
    """An algorithm goes as what it is made of."""
    if Algorithm not in type(argument).__mro__:
        return argument
    if argument.recipe is None:
        raise TypeError(
            f"{type(argument).__name__} was not made by registry.build, so that other ranks cannot make the "
            "same; build it there"
        )
    return argument.recipe
