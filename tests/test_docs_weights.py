"""What docs/weights.md says is true of the code: its example, which is run, and the values that it tells."""

import re
from pathlib import Path
from typing import Any, get_args

import torch

from headrace.services.rollout.engines import OverNewWeights
from headrace.services.weights import WeightStore
from headrace.services.weights.layout import BUCKET_BYTES
from headrace.transferqueue.link.keys import make_keys

TEXT = (Path(__file__).parent.parent / "docs" / "weights.md").read_text()


async def test_its_example_brings_a_version_to_another_node(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, "docs/weights.md", "exec"), names)
    make_keys(tmp_path / "keys")
    there, here = WeightStore(tmp_path / "there"), WeightStore(tmp_path / "here")
    checksum = there.write("actor", 3, {"w": torch.tensor([1.5])})
    await names["to_another_node"](
        there, here, 3, checksum, address="tcp://127.0.0.1:*", keys=tmp_path / "keys"
    )
    assert here.read("actor", 3, checksum)["w"].tolist() == [1.5]


def test_it_names_what_answers_in_flight_may_do() -> None:
    assert tuple(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)) == get_args(OverNewWeights)


def test_it_tells_the_size_of_a_bucket() -> None:
    assert f"buckets of {BUCKET_BYTES >> 20} MiB" in TEXT
