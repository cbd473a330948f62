"""docs/algorithms.md names every algorithm there is, and its example is one."""

import re
from pathlib import Path

import pytest

from headrace.algorithms.options import PythonOptions
from headrace.algorithms.registry import ALGORITHMS, build
from tests.algorithms.batches import made, token_batch, value_and_gradient, vector

TEXT = (Path(__file__).parents[2] / "docs" / "algorithms.md").read_text()


def test_the_table_names_every_algorithm_and_what_it_reads() -> None:
    first_part = TEXT.partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\|([^|]*)\|$", first_part, re.MULTILINE))
    assert rows.keys() == {*ALGORITHMS, "python"}
    for kind in ALGORITHMS:
        assert tuple(re.findall(r"`(\w+)`", rows[kind])) == made(kind).needs(), kind


def test_the_example_is_an_algorithm(tmp_path: Path) -> None:
    example, *_ = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "my_algorithm.py").write_text(example)
    options = PythonOptions(path=f"{tmp_path}/my_algorithm.py:Reinforce", options={"entropy_floor": 0.5})
    batch = token_batch([[1, 1]], advantages=vector(2.0, -1.0))
    entropy = vector(0.2, 0.9).requires_grad_()
    value, gradient, count = value_and_gradient(
        build(options, max_new_tokens=2), vector(-1.0, -1.0), batch, entropy=entropy
    )
    assert (value, gradient, count) == (pytest.approx(0.3 + 2.0 - 1.0, abs=1e-12), [-2.0, 1.0], 2.0)
