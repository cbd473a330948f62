"""A verifier of the copy task that kills a rank of the trainer in the midst of a step, once; for a run in one
process, of which it and the rank are children."""

import itertools
import os
import signal

import psutil

from headrace.services.options import CopyVerifier
from headrace.services.reward.verifiers.copy import Copy

AT = 3 * 32 + 16
"""The answer that is scored when the rank is killed: one in the middle of the fourth step of 32."""
_answers = itertools.count(1)
_copy = Copy(CopyVerifier(exact_weight=0.0))


def scores_and_kills(response: str, example: dict) -> float:
    if next(_answers) == AT:
        for child in psutil.Process(os.getppid()).children():
            if "headrace.services.trainer.ranks.worker" in child.cmdline():
                os.kill(child.pid, signal.SIGKILL)
    return _copy(response, example).value
