"""Makes rows of another table from those of one: prompts by a function of the user's, or copies.

    lease ─► function ─► encode ─► put whole groups ─► ack
                 └── no prompt: what joins owe the row is written as missing

Invariant: a row that comes again, after a lease that was lost, makes groups of the same numbers again; those
that are there, or have been and gone, are left as they are. A row that the function fails on is handed back
alone.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from headrace.algorithms.by_path import find
from headrace.services.base import Bridge, Context, Output
from headrace.services.branch.asked import NOBODY, Parent, Prompt, Tokens, prompts_of, tokens_of
from headrace.services.errors import ServiceError, describe
from headrace.services.models import check_same_tokens, load_tokenizer
from headrace.services.options import BranchOptions
from headrace.services.owed import give
from headrace.services.prompts import PromptError
from headrace.services.texts import decode, unstopped
from headrace.services.whole_groups import Fresh, put_whole
from headrace.transferqueue import SAMPLE_BITS, Refused, Rows, RowsGone, WriteConflict


class BranchError(ServiceError):
    """A row that no prompts could be made of."""


class Branch:
    """A `Service` of the parent table, and the producer of the new one."""

    capacity = 1024

    def __init__(self, *, load_tokenizer: Callable[[str], Any] = load_tokenizer) -> None:
        self._load_tokenizer = load_tokenizer
        self._promptless = 0
        """Rows so far that the function made no prompt of."""
        self._turns = self._forks = 0
        """Conversations so far that went on, and those of them that were tokenised anew."""

    async def setup(self, context: Context) -> None:
        """Raises ValueError or ImportError where the function cannot be had."""
        assert context.bridge is not None, "the planner gives every branch one"
        self._context = context
        self._options: BranchOptions = context.options
        self._bridge: Bridge = context.bridge
        if self._options.function is not None:
            self._function = find(self._options.function, key=f"{context.node}.function", what="function")
            await asyncio.to_thread(self._open_tokenizers)

    def _open_tokenizers(self) -> None:
        self._asks = self._load_tokenizer(self._context.policy.model)
        self._answered = self._load_tokenizer(self._context.flow.model)
        self._foreign: str | None = None
        try:
            check_same_tokens(self._context.policy.model, self._context.flow.model)
        except ValueError as error:
            self._foreign = str(error)

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        """Acknowledges rows whose groups are in the new table. Raises BranchError naming the first row that
        the function would not take, once the others are done."""
        if self._options.function is None:
            names = self._bridge.columns
            parts = [_copied(part, names) for part in rows.by_group()]
            await self._put_new(parts, whole=_copied(rows, names))
            yield Output(uids=rows.uids)
            return
        fresh, without, failed = await asyncio.to_thread(self._made, rows)
        self._tell_turns()
        if fresh:
            await self._put_new(fresh, whole=_together(fresh))
        await self._without(without)
        done = np.isin(rows.uids, list(failed), invert=True)
        if done.any():
            yield Output(uids=rows.uids[done])
        for error in failed.values():
            raise error

    async def end(self) -> None:
        """The parent table has no further row: nor has the new one."""
        await self._context.client.end(self._bridge.table)

    def _made(self, rows: Rows) -> tuple[list[Fresh], list[int], dict[int, BranchError]]:
        """The groups of all rows, the rows that give none, and the errors of those that fail."""
        fresh: list[Fresh] = []
        without: list[int] = []
        failed: dict[int, BranchError] = {}
        for parent in self._parents(rows):
            try:
                groups = self._groups(parent)
            except BranchError as error:
                failed[parent.uid] = error
                continue
            fresh += groups
            without += [] if groups else [parent.uid]
        return fresh, without, failed

    def _groups(self, parent: Parent) -> list[Fresh]:
        """Raises BranchError."""
        try:
            prompts = prompts_of(self._function(parent))
            return [self._group(parent.uid, index, prompt) for index, prompt in enumerate(prompts)]
        except Exception as error:
            raise BranchError(f"{self._options.function} on row {parent.uid}: {describe(error)}") from error

    def _group(self, uid: int, index: int, prompt: Prompt) -> Fresh:
        assert self._bridge.origin is not None
        number, samples = self._bridge.origin.group_of(uid, index), self._options.samples_per_prompt
        return Fresh(
            uids=number << SAMPLE_BITS | np.arange(samples, dtype=np.int64),
            groups=np.full(samples, number, dtype=np.int64),
            columns={name: [value] * samples for name, value in self._columns(prompt).items()},
        )

    def _columns(self, prompt: Prompt) -> dict[str, Any]:
        if self._foreign and prompt.has_tokens:
            raise PromptError(
                f"tokens of one policy cannot go to the other: {self._foreign}; pass their text"
            )
        asked = tokens_of(prompt, self._asks)
        if asked.forked is not None:
            self._turns += 1
            self._forks += asked.forked
        return {
            "prompt_ids": asked.ids,
            "example": dict(prompt.example),
            "prompt_policies": asked.policies,
            "prompt_versions": asked.versions,
        }

    def _parents(self, rows: Rows) -> list[Parent]:
        prompts, responses = self._prompts(rows), self._responses(rows)
        further = {name: rows[name] for name in self._options.columns}
        return [
            Parent(
                uid=uid,
                group=group,
                prompt=prompts[i],
                response=responses[i],
                example=example,
                columns={name: values[i] for name, values in further.items()},
            )
            for i, (uid, group, example) in enumerate(
                zip(rows.uids.tolist(), rows.groups.tolist(), rows["example"], strict=True)
            )
        ]

    def _prompts(self, rows: Rows) -> list[Tokens]:
        ids = rows["prompt_ids"]
        branched = "prompt_policies" in rows.columns
        nobody = [np.full(len(each), NOBODY, dtype=np.int32) for each in ids]
        policies = rows["prompt_policies"] if branched else [each.astype(np.int8) for each in nobody]
        versions = rows["prompt_versions"] if branched else nobody
        return _tokens(decode(self._answered, ids), ids, policies, versions)

    def _responses(self, rows: Rows) -> list[Tokens]:
        who = self._bridge.policies.index(self._bridge.answered_by)
        kept = unstopped(self._answered, rows["response_ids"])
        versions = [each[: len(ids)] for ids, each in zip(kept, rows["versions"], strict=True)]
        policies = [np.full(len(ids), who, dtype=np.int8) for ids in kept]
        return _tokens(decode(self._answered, kept), kept, policies, versions)

    async def _put_new(self, groups: Sequence[Fresh], *, whole: Fresh) -> None:
        """Puts `whole`, or where some of it is there already the groups that it consists of."""
        try:
            await self._put(whole)
            return
        except Refused as refused:
            self._context.report.event("branched_before", groups=len(groups), reason=str(refused))
        for group in groups:
            with suppress(RowsGone, WriteConflict):
                await self._put(group)

    async def _put(self, fresh: Fresh) -> None:
        with self._context.pulse.waiting():
            await put_whole(self._context.client, self._bridge.table, fresh, self._context.trace)

    def _tell_turns(self) -> None:
        """How often a conversation went on, once one has."""
        if self._turns:
            told = {"turns": float(self._turns), "forks": float(self._forks)}
            node = self._context.node
            self._context.report.metrics({f"branch/{node}/{name}": value for name, value in told.items()})

    async def _without(self, uids: Sequence[int]) -> None:
        """Rows that gave no prompt: joins will bring nothing back to them."""
        if not uids:
            return
        rows, missing = np.array(uids, dtype=np.int64), np.full(len(uids), np.nan)
        for column in self._bridge.owed:
            await give(self._context.client, self._context.flow.table, rows, {column: missing})
        self._promptless += len(uids)
        self._context.report.metrics({f"branch/{self._context.node}/without": float(self._promptless)})

    async def close(self) -> None:
        """Holds nothing."""


def _tokens(
    texts: Sequence[str],
    ids: Sequence[np.ndarray],
    policies: Sequence[np.ndarray],
    versions: Sequence[np.ndarray],
) -> list[Tokens]:
    columns = zip(texts, ids, policies, versions, strict=True)
    return [Tokens(text=t, ids=i, policies=p, versions=v) for t, i, p, v in columns]


def _copied(rows: Rows, names: Sequence[str]) -> Fresh:
    """Without what was read for the branch alone: marks, and what transforms within it go by."""
    return Fresh(uids=rows.uids, groups=rows.groups, columns={name: rows.arrow(name) for name in names})


def _together(fresh: Sequence[Fresh]) -> Fresh:
    return Fresh(
        uids=np.concatenate([each.uids for each in fresh]),
        groups=np.concatenate([each.groups for each in fresh]),
        columns={
            name: [value for each in fresh for value in each.columns[name]] for name in fresh[0].columns
        },
    )
