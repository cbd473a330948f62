import json
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
        ('{"question": "?"}', r"data\.jsonl:2: each line must be an object with the key `prompt`"),
        ('{"prompt": 3}', r"data\.jsonl:2: `prompt` must be text, or a list of messages .* got 3"),
        ('{"prompt": [{"role": "user"}]}', r"data\.jsonl:2: `prompt` must be text"),
        ('{"prompt": ""}', r"data\.jsonl:2: `prompt` must be text"),
    ],
)
def test_a_bad_line_is_refused_when_the_file_is_opened(tmp_path: Path, line: str, named: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"prompt": "fine"}\n' + line + "\n")
    with pytest.raises(DatasetError, match=named):
        open_dataset(JsonlData(path=str(path)), seed=0)


def test_a_missing_or_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="there is no file"):
        open_dataset(JsonlData(path=str(tmp_path / "none.jsonl")), seed=0)
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(DatasetError, match="has no line"):
        open_dataset(JsonlData(path=str(tmp_path / "empty.jsonl")), seed=0)
