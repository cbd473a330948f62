"""A branch over a real queue: what its function gives, fails on, and does otherwise the second time."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.services.branch import Continued, Parent, Prompt
from headrace.services.errors import ReplicaFailed, first_error
from headrace.services.models import load_tokenizer
from tests.services.bench import Remembered
from tests.services.branched import BRIDGE, ORIGIN, READS, between

CALLS: Iterator[int] = count()


def here(name: str) -> str:
    return f"{__name__}:{name}"


def asked(row: Parent) -> Prompt:
    return Prompt(prompt=[row.prompt, row.response, ">"], example=row.example)


def once_or_twice(row: Parent) -> list[Prompt] | None:
    """As many prompts as the number of the row's group."""
    return [asked(row)] * row.group or None


def fails_on_one(row: Parent) -> Prompt:
    if row.uid == 1 << 16 | 1:
        raise ArithmeticError("not this one")
    return asked(row)


def too_many_of_one(row: Parent) -> list[Prompt]:
    return [asked(row)] * (3 if row.uid == 0 else 1)


def another_each_time(row: Parent) -> Prompt:
    return Prompt(prompt="a" * (1 + next(CALLS) % 7) + ">", example=row.example)


def text(row: Parent) -> str:
    return "a prompt must be a Prompt"


def further(row: Parent) -> Prompt:
    said, asked = [{"role": "user", "content": "b"}], [{"role": "user", "content": "e"}]
    return Prompt(prompt=Continued(row=row, said=said, asked=asked), example=row.example)


def templated(template: str) -> Callable[[str], Any]:
    """tiny-copier's tokenizer with a chat template."""

    def load(model: str) -> Any:
        tokenizer = load_tokenizer(model)
        tokenizer.chat_template = template
        return tokenizer

    return load


async def test_each_token_of_a_prompt_keeps_who_made_it(tmp_path: Path) -> None:
    async with between(tmp_path) as b:
        await b.solved(2)
        await b.branch(here("asked"))
        rows = await b.fresh()
        assert sorted({ORIGIN.uid_of(group) for group in rows.groups.tolist()}) == [
            0,
            1,
            1 << 16,
            1 << 16 | 1,
        ]
        assert len(rows) == 8
        for i in range(8):
            assert rows["prompt_ids"][i].tolist() == [4, 2, 5, 6, 2]
            assert rows["prompt_policies"][i].tolist() == [-1, -1, 0, 0, -1]
            assert rows["prompt_versions"][i].tolist() == [-1, -1, 3, 3, -1]
            assert rows["example"][i] == {"number": ORIGIN.uid_of(int(rows.groups[i])) >> 16}
        stats = await b.client.stats()
        assert stats.tables["judged"].ended
        assert stats.tables["solved"].tasks["judged"].done == 4


async def test_a_conversation_goes_on_with_the_ids_that_were_sampled(tmp_path: Path) -> None:
    template = "{% for m in messages %}{{ m.content }}>{% endfor %}"
    async with between(tmp_path) as b:
        await b.solved(1)
        await b.branch(here("further"), load_tokenizer=templated(template))
        rows = await b.fresh()
        for i in range(4):
            assert rows["prompt_ids"][i].tolist() == [4, 2, 5, 6, 2, 7, 2]
            assert rows["prompt_policies"][i].tolist() == [-1, -1, 0, 0, -1, -1, -1]
            assert rows["prompt_versions"][i].tolist() == [-1, -1, 3, 3, -1, -1, -1]
        assert told(b.report) == {"branch/judged/turns": 2.0, "branch/judged/forks": 0.0}


async def test_a_conversation_that_the_template_renders_otherwise_forks_and_is_counted(
    tmp_path: Path,
) -> None:
    template = "{% for m in messages %}{{ m.content | replace('cd', 'd') }}>{% endfor %}"
    async with between(tmp_path) as b:
        await b.solved(1)
        await b.branch(here("further"), load_tokenizer=templated(template))
        rows = await b.fresh()
        for i in range(4):
            assert rows["prompt_ids"][i].tolist() == [4, 2, 6, 2, 7, 2]
            assert rows["prompt_policies"][i].tolist() == [-1] * 6
        assert told(b.report) == {"branch/judged/turns": 2.0, "branch/judged/forks": 2.0}


def told(report: Remembered) -> dict[str, float]:
    """What a branch said of its turns last."""
    lines = [line for _, line in report.lines if "branch/judged/turns" in line]
    return lines[-1] if lines else {}


async def test_rows_without_a_prompt_are_owed_nothing_any_more(tmp_path: Path) -> None:
    async with between(tmp_path) as b:
        await b.solved(3)
        await b.branch(here("once_or_twice"))
        rows = await b.fresh()
        made = [ORIGIN.group_of(1 << 16, 0), ORIGIN.group_of(1 << 16 | 1, 0)]
        made += [ORIGIN.group_of(uid, index) for uid in (2 << 16, 2 << 16 | 1) for index in (0, 1)]
        assert sorted(set(rows.groups.tolist())) == made
        missing = await b.client.lease("learn", 10, timeout_s=60.0)
        assert missing.rows.uids.tolist() == [0, 1]
        assert np.isnan(missing.rows["verdict"]).all()
        assert b.report.lines[0] == (None, {"branch/judged/without": 2.0})


@pytest.mark.parametrize(
    ("function", "uid", "reason"),
    [
        ("fails_on_one", 1 << 16 | 1, "on row 65537: ArithmeticError: not this one"),
        ("too_many_of_one", 0, "prompt 2 of row 0 of table 'solved'; allowed are 0 to 1: make fewer prompts"),
    ],
)
async def test_a_row_that_the_function_fails_on_costs_no_other(
    tmp_path: Path, function: str, uid: int, reason: str
) -> None:
    async with between(tmp_path) as b:
        await b.solved(4)
        await b.branch(here(function))
        assert len(await b.fresh()) == 14
        solved = (await b.client.stats()).tables["solved"]
        assert list(solved.quarantine) == [uid]
        assert reason in solved.quarantine[uid]
        assert (solved.rows, solved.lost) == (7, 0)


async def test_a_function_that_gives_no_prompts_at_all_ends_its_replica(tmp_path: Path) -> None:
    async with between(tmp_path) as b:
        await b.solved(8)
        with pytest.raises(ExceptionGroup) as raised:
            await b.branch(here("text"))
        assert "must return a Prompt, several, or None" in str(first_error(raised.value))
        assert not isinstance(first_error(raised.value), ReplicaFailed)


async def test_rows_that_come_again_make_nothing_twice_whatever_the_function_says(tmp_path: Path) -> None:
    """A first life put half of the groups and was killed before its ack; another row's group has gone."""
    async with between(tmp_path) as b:
        await b.solved(3)
        uids = [ORIGIN.group_of(uid, 0) << 16 | sample for uid in (0, 1) for sample in (0, 1)]
        columns = {
            "prompt_ids": [np.array([3], dtype=np.int32)] * 4,
            "example": [{}] * 4,
            "prompt_policies": [np.array([-1], dtype=np.int8)] * 4,
            "prompt_versions": [np.array([-1], dtype=np.int32)] * 4,
        }
        await b.client.put("judged", uids, columns, groups=[uid >> 16 for uid in uids])
        await b.client.drop("judged", uids[2:], "over before")
        b.report.lines.clear()
        await b.branch(here("another_each_time"))
        rows = await b.fresh()
        assert len(rows) == 2 * 5
        first = rows.groups == ORIGIN.group_of(0, 0)
        assert [ids.tolist() for ids, known in zip(rows["prompt_ids"], first, strict=True) if known] == [
            [3]
        ] * 2
        assert len(b.report.of("branched_before")) == 1
        assert b.report.of("process_failed") == []
        assert (await b.client.stats()).tables["solved"].quarantined == 0


async def test_copies_are_made_once_and_under_the_rows_own_numbers(tmp_path: Path) -> None:
    async with between(tmp_path, copied=True) as b:
        await b.solved(3)
        lease = await b.client.lease("judged", 2, timeout_s=60.0)
        cells = {name: lease.rows.arrow(name) for name in lease.rows.columns}
        await b.client.put("judged", lease.rows.uids, cells, groups=lease.rows.groups)
        await b.client.drop("judged", lease.rows.uids, "over before")
        await b.client.release(lease, reason="its holder was killed", failed=False)
        await b.branch(None, bridge=replace(BRIDGE, origin=None, columns=READS))
        rows = await b.fresh()
        assert rows.uids.tolist() == [1 << 16, 1 << 16 | 1, 2 << 16, 2 << 16 | 1]
        assert rows["response_ids"][0].tolist() == [5, 6, 1]
        assert (await b.client.stats()).tables["solved"].tasks["judged"].done == 6
