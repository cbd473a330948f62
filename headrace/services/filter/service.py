"""Lets rows pass or drops them from their table, as a function of the user's says.

    lease ─► the function, in a process of its own ─┬► passed: the mark that readers of the filter wait for
                                                    ├► dropped: out of the table for every task, by its reason
                                                    └► raised, hung or died: handed back, to be tried again

Invariant: a row on which the function failed is neither passed nor dropped.
"""

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import numpy as np

from headrace.services.base import Context, Output
from headrace.services.columns import passed
from headrace.services.errors import ServiceError
from headrace.services.filter.judged import PASS
from headrace.services.isolation.errors import IsolationError
from headrace.services.isolation.process import Isolated
from headrace.services.models import load_tokenizer
from headrace.services.options import RowFilterOptions
from headrace.services.texts import TEXTS, keywords
from headrace.transferqueue import Rows

TIMEOUT_S = 10.0
"""Seconds that the function may take for one row."""
FLUSH_AFTER_S = 0.1
"""Seconds after which what has been judged goes on, even if the lease holds more."""
MAX_REASONS = 32
"""Reasons that are counted one by one; a function that gives more has those after them counted as OTHER."""
OTHER = "other reasons"


class FilterError(ServiceError):
    """Rows that could not be judged."""


class Filter:
    """A `Service`."""

    capacity = 64

    def __init__(self, *, load_tokenizer: Callable[[str], Any] = load_tokenizer) -> None:
        self._load_tokenizer = load_tokenizer
        self._function: Isolated | None = None
        self._counts = Counter({PASS: 0})

    async def setup(self, context: Context) -> None:
        """Raises Unusable where the function is not there or does not take its columns."""
        options: RowFilterOptions = context.options
        self._context = context
        self._columns = options.columns
        texts = any(name in TEXTS for name in options.columns)
        self._tokenizer = (
            await asyncio.to_thread(self._load_tokenizer, context.policy.model) if texts else None
        )
        self._function = Isolated(
            "headrace.services.filter.judged:served",
            {"function": options.function, "columns": options.columns},
            noun="filter",
            timeout_s=TIMEOUT_S,
            log_file=context.log_file,
        )
        await self._function.start()

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        """Raises FilterError for the rows on which the function failed, once the others have gone on."""
        if self._function is None:
            raise RuntimeError("process() came before setup()")
        judged: defaultdict[str, list[int]] = defaultdict(list)
        failed: list[tuple[int, IsolationError]] = []
        flushed = time.monotonic()
        for uid, row in zip(rows.uids.tolist(), keywords(rows, self._columns, self._tokenizer), strict=True):
            try:
                answer = await self._function.ask({"row": json.dumps(row)})
            except IsolationError as error:
                failed.append((uid, error))
                continue
            judged[self._counted(answer["reason"])].append(uid)
            if time.monotonic() - flushed > FLUSH_AFTER_S:
                for output in self._outputs(judged):
                    yield output
                judged.clear()
                flushed = time.monotonic()
        for output in self._outputs(judged):
            yield output
        self._tell()
        if failed:
            uid, last = failed[-1]
            raise FilterError(
                f"{len(failed)} of {len(rows)} rows could not be judged; uid {uid}: {last}"
            ) from last

    def _counted(self, reason: str) -> str:
        if reason != PASS and reason not in self._counts and len(self._counts) > MAX_REASONS:
            reason = OTHER
        self._counts[reason] += 1
        return reason

    def _outputs(self, judged: dict[str, list[int]]) -> Iterator[Output]:
        mark = passed(self._context.node)
        for reason, members in judged.items():
            uids = np.array(members, dtype=np.int64)
            if reason == PASS:
                yield Output(uids=uids, columns={mark: np.ones(len(uids), dtype=bool)})
            else:
                yield Output(uids=uids, dropped=reason)

    def _tell(self) -> None:
        named = f"filter/{self._context.node}"
        told = {f"{named}/dropped/{_word(r)}": float(n) for r, n in self._counts.items() if r != PASS}
        self._context.report.metrics({f"{named}/passed": float(self._counts[PASS]), **told})

    async def close(self) -> None:
        if self._function is not None:
            await self._function.close()


def _word(reason: str) -> str:
    """A reason as part of a metric's name."""
    return reason.replace(" ", "_").replace("/", "_")
