import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from headrace.services.base import Context, Flow
from headrace.services.options import CopyData, JsonlData, PolicyOptions, SourceOptions
from headrace.services.prompts import PromptError
from headrace.services.source.service import Source
from headrace.transferqueue import Client, WaitTimeout


class Letters:
    """A tokenizer of one token a character, with a chat template where asked for."""

    def __init__(self, chat_template: str | None = None) -> None:
        self.chat_template = chat_template

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> list[int]:
        return self.encode("".join(f"{m['role'][0]}:{m['content']};" for m in messages) + "a:")


class Table:
    """Keeps what is put; the first `full_s` puts find no room in time."""

    def __init__(self, full: int = 0) -> None:
        self.puts: list[tuple[np.ndarray, np.ndarray, Mapping[str, Any]]] = []
        self.ended: list[str] = []
        self.full = full

    async def put(
        self,
        table: str,
        uids: np.ndarray,
        columns: Mapping[str, Any],
        *,
        groups: np.ndarray,
        timeout_s: float,
    ) -> None:
        if self.full:
            self.full -= 1
            raise WaitTimeout("no room")
        self.puts.append((uids, groups, columns))

    async def end(self, table: str) -> None:
        self.ended.append(table)

    async def stats(self) -> Any:
        newest = max(self.groups(), default=-1)
        return SimpleNamespace(tables={"rows": SimpleNamespace(newest_group=newest)})

    def groups(self) -> list[int]:
        return [int(group) for _, groups, _ in self.puts for group in dict.fromkeys(groups.tolist())]


class Silent:
    def metrics(self, values: Mapping[str, float], *, step: int | None = None) -> None: ...
    def event(self, kind: str, **detail: Any) -> None: ...


def context(table: Table, options: SourceOptions, tmp_path: Path, **changes: Any) -> Context:
    flow = Flow(
        table="rows",
        steps=10,
        first_step=0,
        samples_per_prompt=options.samples_per_prompt,
        prompts_per_step=8,
        staleness=0.0,
        temperature=1.0,
        max_new_tokens=16,
        model="tiny-copier",
        no_progress_timeout_s=60.0,
    )
    made = Context(
        run="copy",
        run_dir=tmp_path,
        node="prompts",
        replica="prompts/0",
        seed=0,
        client=cast(Client, table),
        options=options,
        shared_dir=tmp_path,
        resume=None,
        policy_name="actor",
        policy=PolicyOptions(model="tiny-copier"),
        flow=flow,
        report=Silent(),
    )
    return replace(made, **changes)


async def run(table: Table, options: SourceOptions, tmp_path: Path, **changes: Any) -> None:
    source = Source(load_tokenizer=lambda _: Letters())
    await source.setup(context(table, options, tmp_path, **changes))
    await source.run()
    await source.close()


def small(epochs: int | None = 1, size: int = 6) -> SourceOptions:
    return SourceOptions(dataset=CopyData(letters=2, size=size), samples_per_prompt=3, epochs=epochs)


async def test_each_group_is_one_prompt_with_a_row_per_sample(tmp_path: Path) -> None:
    table = Table()
    await run(table, small(), tmp_path)
    ((uids, groups, columns),) = table.puts
    assert groups.tolist() == [group for group in range(6) for _ in range(3)]
    assert uids[:6].tolist() == [0, 1, 2, 65536, 65537, 65538]
    assert uids.dtype == groups.dtype == np.int64
    answers = [example["answer"] for example in columns["example"]]
    prompts = ["".join(map(chr, ids)) for ids in columns["prompt_ids"]]
    assert prompts == [f"{answer}>" for answer in answers]
    assert answers[0] == answers[1] == answers[2] and columns["prompt_ids"][0].dtype == np.int32
    assert not (tmp_path / "sources").exists()


async def test_the_table_is_ended_after_the_last_epoch(tmp_path: Path) -> None:
    """A02: eight prompts over five epochs are forty groups, each prompt five times."""
    table = Table()
    await run(table, small(epochs=5, size=8), tmp_path)
    assert table.groups() == list(range(40))
    assert table.ended == ["rows"]
    seen = [columns["example"][i]["answer"] for _, _, columns in table.puts for i in range(0, 24, 3)]
    assert all(seen.count(answer) % 5 == 0 for answer in set(seen)) and len(seen) == 40


async def test_a_full_table_is_waited_for(tmp_path: Path) -> None:
    table = Table(full=3)
    await run(table, small(), tmp_path)
    assert table.groups() == list(range(6))


async def test_a_resumed_source_draws_what_no_committed_step_used(tmp_path: Path) -> None:
    """A10: and under the same uids as an uninterrupted one."""
    whole, rest = Table(), Table()
    await run(whole, small(), tmp_path)
    values = {"data_position": {"next": 2, "done": [4]}}
    (tmp_path / "state.json").write_text(json.dumps({"step": 1, "values": values}))
    await run(rest, small(), tmp_path, resume=tmp_path)
    assert rest.groups() == [2, 3, 5]

    def answers(table: Table) -> dict[int, str]:
        return {
            uid: example["answer"]
            for uids, _, columns in table.puts
            for uid, example in zip(uids.tolist(), columns["example"], strict=True)
        }

    assert answers(rest).items() <= answers(whole).items()


async def test_without_a_number_of_epochs_it_goes_on_until_cancelled(tmp_path: Path) -> None:
    enough = asyncio.Event()

    class Counting(Table):
        async def put(self, *arguments: Any, **options: Any) -> None:
            await super().put(*arguments, **options)
            if len(self.puts) == 20:
                enough.set()

    table = Counting()
    running = asyncio.ensure_future(run(table, small(epochs=None), tmp_path))
    await enough.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert table.groups()[:40] == list(range(40)) and table.ended == []


async def test_chat_messages_go_through_the_models_template(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps({"prompt": [{"role": "user", "content": "1+1?"}], "answer": "2"}))
    options = SourceOptions(dataset=JsonlData(path=str(path)), samples_per_prompt=1, epochs=1)
    table = Table()
    source = Source(load_tokenizer=lambda _: Letters(chat_template="{{ messages }}"))
    await source.setup(context(table, options, tmp_path))
    await source.run()
    assert "".join(map(chr, table.puts[0][2]["prompt_ids"][0])) == "u:1+1?;a:"
    with pytest.raises(PromptError, match="has no chat template"):
        await run(Table(), options, tmp_path)


async def test_more_samples_than_a_uid_has_room_for_are_refused(tmp_path: Path) -> None:
    options = SourceOptions(dataset=CopyData(), samples_per_prompt=65_537)
    with pytest.raises(ValueError, match="samples_per_prompt is 65537; a uid has room for 1 to 65536"):
        await run(Table(), options, tmp_path)
