"""Makes rows of another table from those of one: prompts by a function of the user's, or copies.

    lease ─► function ─► encode ─► put whole groups ─► ack
                 └── no prompt: what joins owe the row is written as missing

Invariant: a row that comes again, after a lease that was lost, makes the same groups again; those that are
there, or have been and gone, are left as they are.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.algorithms.by_path import find
from headrace.services.base import Bridge, Context, Output
from headrace.services.branch.asked import NOBODY, Parent, Prompt, Tokens, prompts_of, tokens_of
from headrace.services.errors import ServiceError, describe
from headrace.services.models import check_same_tokens, load_tokenizer
from headrace.services.options import BranchOptions
from headrace.services.prompts import PromptError
from headrace.services.texts import decode
from headrace.transferqueue import SAMPLE_BITS, Refused, Rows, RowsGone, WaitTimeout, WriteConflict

_PUT_TIMEOUT_S = 60.0


class BranchError(ServiceError):
    """A row that no prompts could be made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One prompt, ready to be put: `columns[c]` has one value, the same for each of its rows."""

    number: int
    columns: Mapping[str, Any]


class Branch:
    """A `Service` of the parent table, and the producer of the new one."""

    capacity = 1024

    def __init__(self, *, load_tokenizer: Callable[[str], Any] = load_tokenizer) -> None:
        self._load_tokenizer = load_tokenizer

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
        """Acknowledges rows whose groups are in the new table. Raises BranchError naming the row at fault."""
        if self._options.function is None:
            await self._put(rows.uids, rows.groups, {name: rows.arrow(name) for name in rows.columns})
        else:
            made = await asyncio.to_thread(self._made, rows)
            await self._put_groups([group for groups in made.values() for group in groups])
            await self._without([uid for uid, groups in made.items() if not groups])
        yield Output(uids=rows.uids, columns={})

    async def end(self) -> None:
        """The parent table has no further row: nor has the new one."""
        await self._context.client.end(self._bridge.table)

    def _made(self, rows: Rows) -> dict[int, list[Group]]:
        """The groups of each row, by uid."""
        return {parent.uid: self._groups(parent) for parent in self._parents(rows)}

    def _groups(self, parent: Parent) -> list[Group]:
        assert self._bridge.origin is not None
        try:
            prompts = prompts_of(self._function(parent))
            return [
                Group(number=self._bridge.origin.group_of(parent.uid, index), columns=self._columns(prompt))
                for index, prompt in enumerate(prompts)
            ]
        except Exception as error:
            raise BranchError(f"{self._options.function} on row {parent.uid}: {describe(error)}") from error

    def _columns(self, prompt: Prompt) -> dict[str, Any]:
        if self._foreign and any(isinstance(part, Tokens) for part in prompt.prompt):
            raise PromptError(
                f"tokens of one policy cannot go to the other: {self._foreign}; pass their text"
            )
        ids, policies, versions = tokens_of(prompt, self._asks)
        return {
            "prompt_ids": ids,
            "example": dict(prompt.example),
            "prompt_policies": policies,
            "prompt_versions": versions,
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
        stop, who = self._answered.eos_token_id, self._bridge.policies.index(self._bridge.answered_by)
        kept = [ids[:-1] if len(ids) and ids[-1] == stop else ids for ids in rows["response_ids"]]
        versions = [each[: len(ids)] for ids, each in zip(kept, rows["versions"], strict=True)]
        policies = [np.full(len(ids), who, dtype=np.int8) for ids in kept]
        return _tokens(decode(self._answered, kept), kept, policies, versions)

    async def _put_groups(self, groups: Sequence[Group]) -> None:
        if not groups:
            return
        try:
            await self._put_whole(groups)
        except (Refused, RowsGone, WriteConflict):
            for group in groups:
                try:
                    await self._put_whole([group])
                except (RowsGone, WriteConflict) as there:
                    self._context.report.event("branched_before", group=group.number, reason=str(there))

    async def _put_whole(self, groups: Sequence[Group]) -> None:
        samples = self._options.samples_per_prompt
        numbers = np.repeat(np.array([group.number for group in groups], dtype=np.int64), samples)
        uids = numbers << SAMPLE_BITS | np.tile(np.arange(samples), len(groups))
        columns = {
            name: [group.columns[name] for group in groups for _ in range(samples)]
            for name in groups[0].columns
        }
        await self._put(uids, numbers, columns)

    async def _put(self, uids: np.ndarray, groups: np.ndarray, columns: Mapping[str, Any]) -> None:
        while True:
            try:
                await self._context.client.put(
                    self._bridge.table, uids, columns, groups=groups, timeout_s=_PUT_TIMEOUT_S
                )
                return
            except WaitTimeout:
                continue

    async def _without(self, uids: Sequence[int]) -> None:
        """Rows that gave no prompt: joins will bring nothing back to them."""
        missing = {column: np.full(len(uids), np.nan) for column in self._bridge.owed}
        if uids and missing:
            rows = np.array(uids, dtype=np.int64)
            await self._context.client.put(self._context.flow.table, rows, missing)
            self._context.report.metrics({f"branch/{self._context.node}/without": float(len(uids))})

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
