"""A verifier in a process of its own: started at the first use, replaced when it hangs or dies.

Invariant: one answer at a time, and a process that did not answer in time is never asked again, so an
answer is always that to the question just put.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headrace.services.options import PythonVerifier, ReasoningGymVerifier
from headrace.services.reward.framing import LENGTH, body_length, pack, unpack
from headrace.services.reward.verifiers import to_plain
from headrace.services.verdicts.errors import VerdictRefused, VerifierDied, VerifierRaised, VerifierUnusable
from headrace.services.verdicts.verdict import Invalid, Score, Verdict

START_TIMEOUT_S = 120.0
"""Seconds for the imports of a verifier; they do not count as time of an answer."""


class Isolated:
    """Scores through a child process.

    isolated = Isolated(options)
    verdict = await isolated.score("4", {"answer": "4"})
    await isolated.close()
    """

    def __init__(
        self, options: ReasoningGymVerifier | PythonVerifier, *, log_file: Path | None = None
    ) -> None:
        """`log_file` takes what the child prints; None: this process's stderr does."""
        self._options = options
        self._log_file = log_file
        self._child: asyncio.subprocess.Process | None = None
        self._one_at_a_time = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """Of the child; None while there is none."""
        return None if self._child is None else self._child.pid

    async def start(self) -> None:
        """Makes the verifier now. Raises VerifierUnusable with the way out."""
        async with self._one_at_a_time:
            await self._running()

    async def score(self, response: str, example: Mapping[str, Any], **columns: Any) -> Verdict:
        """Invalid after `timeout_s`. Raises RewardError of every kind."""
        timeout_s = self._options.timeout_s
        told = {"example": json.dumps(example), "columns": json.dumps(columns)}
        frame = {"response": response, **told, "timeout_s": timeout_s}
        async with self._one_at_a_time:
            child = await self._running()
            try:
                async with asyncio.timeout(timeout_s):
                    answer = await _ask(child, frame)
            except TimeoutError:
                await self._end()
                return Invalid(reason=f"the verifier took longer than {timeout_s:g} s")
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                code = await self._end()
                raise VerifierDied(f"the verifier's process ended with code {code} while scoring") from error
            except asyncio.CancelledError:
                await self._end()
                raise
        return _verdict(answer)

    async def _running(self) -> asyncio.subprocess.Process:
        if self._child is not None and self._child.returncode is None:
            return self._child
        await self._end()
        with _appended(self._log_file) as stderr:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "headrace.services.reward.child",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                answer = await _ask(self._child, {"options": to_plain(self._options)})
        except TimeoutError as error:
            await self._end()
            raise VerifierUnusable(f"the verifier did not start within {START_TIMEOUT_S:g} s") from error
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            code = await self._end()
            raise VerifierUnusable(f"the verifier's process ended with code {code} at its start") from error
        except asyncio.CancelledError:
            await self._end()
            raise
        if "unusable" in answer:
            await self._end()
            raise VerifierUnusable(answer["unusable"])
        return self._child

    async def _end(self) -> int | None:
        """Ends the child and what it started; returns its exit code."""
        child, self._child = self._child, None
        if child is None:
            return None
        if child.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        if child.stdin is not None:
            child.stdin.close()
        return await child.wait()

    async def close(self) -> None:
        async with self._one_at_a_time:
            await self._end()


@contextmanager
def _appended(path: Path | None) -> Iterator[int | None]:
    if path is None:
        yield None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        yield file.fileno()


async def _ask(child: asyncio.subprocess.Process, frame: dict[str, Any]) -> dict[str, Any]:
    if child.stdin is None or child.stdout is None:
        raise RuntimeError("the verifier's process was started without pipes")
    child.stdin.write(pack(frame))
    await child.stdin.drain()
    head = await child.stdout.readexactly(LENGTH.size)
    return unpack(await child.stdout.readexactly(body_length(head)))


def _verdict(answer: dict[str, Any]) -> Verdict:
    if "value" in answer:
        return Score(value=answer["value"], parts=answer["parts"])
    if "invalid" in answer:
        return Invalid(reason=answer["invalid"])
    error = VerdictRefused if answer["refused"] else VerifierRaised
    raise error(answer["error"])
