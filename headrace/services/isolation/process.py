"""A function in a process of its own: started at the first use, replaced when it hangs or dies.

Invariant: one question at a time, and a process that did not answer in time is never asked again, so an
answer is always that to the question just put.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headrace.services.isolation.confined import Confinement, environment
from headrace.services.isolation.errors import Died, Raised, TookTooLong, Unusable
from headrace.services.isolation.framing import LENGTH, body_length, pack, unpack

START_TIMEOUT_S = 120.0
"""Seconds for the imports of a function; they do not count as time of an answer."""


class Isolated:
    """Asks a child process.

    isolated = Isolated("my.module:make", {"scale": 2}, noun="scorer", timeout_s=10.0)
    answer = await isolated.ask({"text": "4"})
    await isolated.close()
    """

    def __init__(
        self,
        make: str,
        arguments: Mapping[str, Any],
        *,
        noun: str,
        timeout_s: float,
        log_file: Path | None = None,
        confinement: Confinement | None = None,
    ) -> None:
        """`make`, at `module:name`, takes `arguments` and returns the function: from question to answer.

        All three are mappings that msgpack can carry. `noun` is what messages call the function, `timeout_s`
        the time of one answer; `log_file` takes what the child prints (None: this process's stderr does);
        `confinement` None: it may do what this process may.
        """
        self._make = {"make": make, "arguments": dict(arguments)}
        self._noun = noun
        self._timeout_s = timeout_s
        self._log_file = log_file
        self._confinement = confinement
        self._scratch: Path | None = None
        self._child: asyncio.subprocess.Process | None = None
        self._one_at_a_time = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """Of the child; None while there is none."""
        return None if self._child is None else self._child.pid

    async def start(self) -> None:
        """Makes the function now. Raises Unusable with the reason."""
        async with self._one_at_a_time:
            await self._running()

    async def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Raises IsolationError of every kind."""
        async with self._one_at_a_time:
            child = await self._running()
            try:
                async with asyncio.timeout(self._timeout_s):
                    answer = await _ask(child, {"question": dict(question), "timeout_s": self._timeout_s})
            except TimeoutError as error:
                await self._end()
                raise TookTooLong(f"the {self._noun} took longer than {self._timeout_s:g} s") from error
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                code = await self._end()
                raise Died(f"the {self._noun}'s process ended with code {code} while it was asked") from error
            except asyncio.CancelledError:
                await self._end()
                raise
        if "raised" in answer:
            raise Raised(answer["raised"])
        return answer["answer"]

    async def _running(self) -> asyncio.subprocess.Process:
        if self._child is not None and self._child.returncode is None:
            return self._child
        await self._end()
        confined = self._confined()
        with _appended(self._log_file) as stderr:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-u",
                "-m",
                "headrace.services.isolation.child",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
                env=None if self._confinement is None else environment(os.environ, self._scratch),
            )
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                answer = await _ask(self._child, self._make | {"confinement": confined})
        except TimeoutError as error:
            await self._end()
            raise Unusable(f"the {self._noun} did not start within {START_TIMEOUT_S:g} s") from error
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            code = await self._end()
            raise Unusable(f"the {self._noun}'s process ended with code {code} at its start") from error
        except asyncio.CancelledError:
            await self._end()
            raise
        if "unusable" in answer:
            await self._end()
            raise Unusable(answer["unusable"])
        return self._child

    def _confined(self) -> dict[str, Any] | None:
        """What the child is told; makes the folder that it may write to."""
        if self._confinement is None:
            return None
        if self._confinement.limits.writes:
            self._scratch = Path(tempfile.mkdtemp(prefix="headrace-scratch-"))
        return self._confinement.plain(self._scratch)

    async def _end(self) -> int | None:
        """Ends the child and what it started; returns its exit code."""
        child, self._child = self._child, None
        scratch, self._scratch = self._scratch, None
        try:
            return None if child is None else await _ended(child)
        finally:
            if scratch is not None:
                await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)

    async def close(self) -> None:
        async with self._one_at_a_time:
            await self._end()


async def _ended(child: asyncio.subprocess.Process) -> int:
    if child.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    if child.stdin is not None:
        child.stdin.close()
    return await child.wait()


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
        raise RuntimeError("the process was started without pipes")
    child.stdin.write(pack(frame))
    await child.stdin.drain()
    head = await child.stdout.readexactly(LENGTH.size)
    return unpack(await child.stdout.readexactly(body_length(head)))
