"""Where a data set of the `datasets` package may lie."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.services.options import HuggingFaceData
from headrace.services.source.datasets import open_dataset
from headrace.services.source.datasets.base import DatasetError
from headrace.services.source.datasets.glance import Glance, glance
from headrace.services.source.datasets.hugging_face import HuggingFaceRows

datasets: Any = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache"


def prompts(options: HuggingFaceData) -> list[Any]:
    data = open_dataset(options, seed=0)
    assert isinstance(data, HuggingFaceRows)
    return [data[index].prompt for index in range(len(data))]


def both() -> Any:
    rows = {"train": [{"prompt": "a"}, {"prompt": "b"}], "test": [{"prompt": "c"}]}
    return datasets.DatasetDict({name: datasets.Dataset.from_list(rows[name]) for name in rows})


def test_a_saved_folder_of_splits_gives_the_one_that_is_asked_for(tmp_path: Path) -> None:
    both().save_to_disk(tmp_path / "both")
    options = HuggingFaceData(path=str(tmp_path / "both"))
    assert prompts(options) == ["a", "b"]
    assert prompts(HuggingFaceData(path=options.path, split="test")) == ["c"]
    with pytest.raises(DatasetError, match=r"has no split 'dev'; set dataset.split to one of train, test"):
        open_dataset(HuggingFaceData(path=options.path, split="dev"), seed=0)


def test_the_only_split_needs_no_name(tmp_path: Path) -> None:
    datasets.DatasetDict({"test": both()["test"]}).save_to_disk(tmp_path / "one")
    assert prompts(HuggingFaceData(path=str(tmp_path / "one"))) == ["c"]


@pytest.mark.parametrize(
    ("asked", "named"),
    [({"split": "test"}, "is one split, None, not 'test'"), ({"subset": "sums"}, "has no subsets")],
)
def test_a_saved_split_is_no_other_than_itself(tmp_path: Path, asked: dict[str, Any], named: str) -> None:
    datasets.Dataset.from_list([{"prompt": "a"}]).save_to_disk(tmp_path / "saved")
    with pytest.raises(DatasetError, match=named):
        open_dataset(HuggingFaceData(path=str(tmp_path / "saved"), **asked), seed=0)


def test_a_folder_of_data_files_is_read_without_a_script(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for split, texts in (("train", "ab"), ("test", "c")):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps({"prompt": t}) + "\n" for t in texts))
    options = HuggingFaceData(path=str(folder), split="test")
    assert glance(options) == Glance(size=None, keys=None)
    assert prompts(options) == ["c"]


def test_a_name_is_looked_for_in_the_local_cache_alone(tmp_path: Path, cache: Path) -> None:
    place = cache / "someone___small_sums" / "default" / "0.0.0" / "abc"
    place.mkdir(parents=True)
    rows = both()
    for split in rows:
        rows[split].save_to_disk(tmp_path / split)
        written = tmp_path / split / "data-00000-of-00001.arrow"
        written.rename(place / f"small_sums-{split}.arrow")
    counts = {split: {"name": split, "num_examples": len(rows[split])} for split in rows}
    info = datasets.DatasetInfo(
        dataset_name="small_sums",
        config_name="default",
        features=rows["train"].features,
        splits={split: {**count, "dataset_name": "small_sums"} for split, count in counts.items()},
    )
    info.write_to_directory(str(place))
    assert prompts(HuggingFaceData(path="someone/small_sums")) == ["a", "b"]
    assert glance(HuggingFaceData(path="someone/small_sums", split="test")) == Glance(
        size=1, keys=("prompt",)
    )
    with pytest.raises(DatasetError, match=r"cannot be opened: .*'other'"):
        open_dataset(HuggingFaceData(path="someone/small_sums", subset="other"), seed=0)


def test_what_is_not_on_this_machine_is_not_fetched() -> None:
    with pytest.raises(
        DatasetError, match="no such folder, and a name is looked for in the local cache alone"
    ):
        open_dataset(HuggingFaceData(path="someone/nothing"), seed=0)
