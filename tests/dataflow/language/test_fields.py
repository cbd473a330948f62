from dataclasses import is_dataclass

import pytest

from headrace.dataflow.language.fields import keys, type_name
from headrace.dataflow.language.keys_text import SECTIONS
from headrace.dataflow.language.spec import NodeSpec
from headrace.services import options

CLASSES = [
    *SECTIONS.values(),
    NodeSpec,
    *(cls for cls in vars(options).values() if is_dataclass(cls) and "kind" in keys(cls)),
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_key_has_its_help_under_it(cls: type) -> None:
    silent = [name for name, key in keys(cls).items() if not key.help and name not in ("kind", "options")]
    assert silent == []


def test_inherited_keys_come_first_and_required_ones_are_known() -> None:
    source = keys(options.SourceOptions)
    assert list(source)[:5] == ["replicas", "autoscale", "threads", "cpus", "gpus"]
    assert [name for name, key in source.items() if key.required] == ["dataset"]
    assert source["epochs"].help == "Passes over the data; null: as many as the steps need."


def test_a_type_is_named_as_yaml_has_it() -> None:
    assert type_name(keys(options.SourceOptions)["dataset"].type) == (
        "copy | reasoning_gym | jsonl | parquet | datasets"
    )
    assert type_name(keys(options.OptimizerOptions)["betas"].type) == "list of 2"
    assert type_name(keys(options.SourceOptions)["epochs"].type) == "whole number at least 1 | null"
