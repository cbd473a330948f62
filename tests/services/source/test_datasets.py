import json
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.services.options import CopyData, JsonlData, ReasoningGymData
from headrace.services.source.datasets import open_dataset
from headrace.services.source.datasets.base import DatasetError


def test_copy_words_follow_from_seed_and_index_alone() -> None:
    words = open_dataset(CopyData(), seed=7)
    assert len(words) == 1_000_000
    later, earlier = words[123_456], words[5]
    again = open_dataset(CopyData(size=200_000), seed=7)
    assert (again[5], again[123_456]) == (earlier, later)
    assert open_dataset(CopyData(), seed=8)[5] != earlier


def test_a_copy_prompt_is_the_word_and_its_answer_the_word() -> None:
    entry = open_dataset(CopyData(letters=3, alphabet="x"), seed=0)[0]
    assert (entry.prompt, entry.example) == ("xxx>", {"answer": "xxx"})


def test_copy_letters_are_drawn_evenly() -> None:
    words = open_dataset(CopyData(alphabet="ab"), seed=0)
    letters = "".join(words[index].example["answer"] for index in range(1000))
    assert 1850 < letters.count("a") < 2150


def test_reasoning_gym_entries_are_chat_messages_with_the_whole_entry_in_json() -> None:
    pytest.importorskip("reasoning_gym")
    config = {"min_digits": 1, "max_digits": 1, "min_terms": 2, "max_terms": 2}
    options = ReasoningGymData(task="chain_sum", size=20, config=config, system_prompt="Be short.")
    tasks = open_dataset(options, seed=1)
    entry = tasks[3]
    assert len(tasks) == 20
    assert [message["role"] for message in entry.prompt] == ["system", "user"]  # type: ignore[index]
    assert entry.prompt[1]["content"] == entry.example["entry"]["question"]  # type: ignore[index]
    assert (entry.example["task"], entry.example["config"]) == ("chain_sum", config)
    assert json.loads(json.dumps(entry.example)) == entry.example
    assert open_dataset(options, seed=1)[3] == entry


def test_an_unknown_task_is_refused_with_those_that_exist() -> None:
    pytest.importorskip("reasoning_gym")
    with pytest.raises(DatasetError, match=r"no task 'chain_sums'; it has .*chain_sum"):
        open_dataset(ReasoningGymData(task="chain_sums"), seed=0)


def test_a_configuration_that_the_task_refuses_is_named() -> None:
    pytest.importorskip("reasoning_gym")
    with pytest.raises(DatasetError, match=r"refuses its configuration \{'min_digit': 1\}"):
        open_dataset(ReasoningGymData(task="chain_sum", config={"min_digit": 1}), seed=0)


def test_jsonl_gives_prompts_to_the_model_and_the_rest_to_the_verifier(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    chat = [{"role": "user", "content": "ü?"}]
    path.write_text(
        json.dumps({"prompt": "1+1=", "answer": "2"}) + "\n\n" + json.dumps({"prompt": chat, "level": 3})
    )
    data = open_dataset(JsonlData(path=str(path)), seed=0)
    assert len(data) == 2
    assert (data[1].prompt, data[1].example) == (chat, {"level": 3})
    assert (data[0].prompt, data[0].example) == ("1+1=", {"answer": "2"})


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", r"data\.jsonl:2: not a line of JSON"),
        (
            '{"question": "?"}',
            r"data\.jsonl:2: there is no key `prompt`; it has question: set dataset.prompt_key",
        ),
        ('{"prompt": 3}', r"data\.jsonl:2: `prompt` must be text, a list of messages .* got 3"),
        ('{"prompt": [{"role": "user"}]}', r"data\.jsonl:2: `prompt` must be text"),
        ('{"prompt": ""}', r"data\.jsonl:2: `prompt` must be text"),
    ],
)
def test_a_bad_line_is_refused_when_the_file_is_opened(tmp_path: Path, line: str, named: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"prompt": "fine"}\n' + line + "\n")
    with pytest.raises(DatasetError, match=named):
        open_dataset(JsonlData(path=str(path)), seed=0)


def test_words_of_several_lengths_are_domains_taken_in_turn() -> None:
    words = open_dataset(CopyData(letters=(2, 4, 3), size=5), seed=0)
    assert [len(words[index].example["answer"]) for index in range(5)] == [2, 4, 3, 2, 4]
    labels = words.labels()
    assert labels.names == ("2", "4", "3") and labels.pass_rates is None
    assert labels.domains is not None and labels.domains.tolist() == [0, 1, 2, 0, 1]
    assert words[0] == open_dataset(CopyData(letters=2, size=5), seed=0)[0]
    assert open_dataset(CopyData(letters=(2,)), seed=0).labels().domains is None


def test_several_task_sets_are_domains_each_with_its_own_configuration() -> None:
    pytest.importorskip("reasoning_gym")
    config = {"chain_sum": {"min_digits": 1, "max_digits": 1}}
    options = ReasoningGymData(task=("chain_sum", "basic_arithmetic"), size=5, config=config)
    tasks = open_dataset(options, seed=1)
    told = [tasks[index].example for index in range(5)]
    assert [example["task"] for example in told] == ["chain_sum", "basic_arithmetic"] * 2 + ["chain_sum"]
    assert [example["config"] for example in told[:2]] == [config["chain_sum"], {}]
    alone = open_dataset(ReasoningGymData(task="chain_sum", size=3, config=config["chain_sum"]), seed=1)
    assert [tasks[0], tasks[2], tasks[4]] == [alone[0], alone[1], alone[2]]
    assert tasks.labels().names == ("chain_sum", "basic_arithmetic")


def lines(tmp_path: Path, *entries: dict[str, object]) -> JsonlData:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps({"prompt": "p", **entry}) + "\n" for entry in entries))
    return JsonlData(path=str(path))


def test_jsonl_tells_domains_and_pass_rates_where_every_line_has_them(tmp_path: Path) -> None:
    levels = lines(tmp_path, *({"domain": d, "pass_rate": r} for d, r in ((10, 0.5), (2, 0), (10, 1.0))))
    labels = open_dataset(levels, seed=0).labels()
    assert labels.names == ("2", "10")
    assert labels.domains is not None and labels.domains.tolist() == [1, 0, 1]
    assert labels.pass_rates is not None and labels.pass_rates.tolist() == [0.5, 0.0, 1.0]
    names = replace(lines(tmp_path, {"topic": "sums"}, {"topic": "logic"}), domain_key="topic")
    assert open_dataset(names, seed=0).labels().names == ("sums", "logic")
    plain = open_dataset(lines(tmp_path, {}, {}), seed=0).labels()
    assert (plain.names, plain.domains, plain.pass_rates) == ((), None, None)


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        (({"domain": 1}, {}), "entry 1: `domain` is None, other entries have a number or a text there"),
        (({"pass_rate": 1.5},), "entry 0: `pass_rate` is 1.5; a pass rate is a number from 0 to 1"),
        (({"pass_rate": "high"},), "entry 0: `pass_rate` is 'high'; a pass rate is a number from 0 to 1"),
    ],
)
def test_jsonl_that_tells_of_some_lines_only_is_refused(
    tmp_path: Path, entries: tuple[dict[str, object], ...], named: str
) -> None:
    with pytest.raises(DatasetError, match=named):
        open_dataset(lines(tmp_path, *entries), seed=0).labels()


def test_a_missing_or_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="there is no file"):
        open_dataset(JsonlData(path=str(tmp_path / "none.jsonl")), seed=0)
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(DatasetError, match="has no line"):
        open_dataset(JsonlData(path=str(tmp_path / "empty.jsonl")), seed=0)
