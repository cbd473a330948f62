"""Functions and node types in a user's file, held against the graph that names them."""

from pathlib import Path

import pytest

from tests.dataflow.test_broken_graphs import GOOD, problems_of

FUNCTIONS = """
from math import *
from statistics import fmean as mean

def short(prompt, response): ...
def long(response, words, *, limit=3): ...
def any_of(**columns): ...
async def later(prompt, response): ...
by_hand = lambda prompt, response: True
"""

TYPES = """
from dataclasses import dataclass
from headrace.services.options import Placed

class Whole:
    reads = {"response_ids": "list<int32>"}
    writes = {"loud": "float64"}
    async def setup(self, context): ...
    async def process(self, rows): yield
    async def close(self): ...

class Unready:
    async def process(self, rows): yield
    async def close(self): ...

class Mute(Whole):
    async def process(self, rows): ...

class Untyped(Whole):
    writes = {"loud": "float"}

class Listed(Whole):
    reads = ["response_ids"]

class Lost(Whole):
    reads = {"loudness": None, "response_ids": "list<int32>"}

class Mistyped(Whole):
    reads = {"response_ids": "list<int64>"}

class Asking(Whole):
    @staticmethod
    def reads(options):
        return {options.column: None}

@dataclass(frozen=True, slots=True, kw_only=True)
class Keys(Placed):
    letters: str = "abc"

class Keyed(Whole):
    Options = Keys

class Bare(Whole):
    Options = dict

class Full(Whole):
    capacity = 0
"""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(FUNCTIONS.replace("from math import *\n", ""))
    (tmp_path / "starred.py").write_text(FUNCTIONS)
    (tmp_path / "torn.py").write_text("def short(prompt:\n")
    (tmp_path / f"types_{tmp_path.name}.py").write_text(TYPES)
    monkeypatch.chdir(tmp_path)


def filtered(function: str) -> list[str]:
    valid = f"  valid: {{kind: filter, inputs: [answers], function: {function}}}\n  learn:"
    return problems_of(
        GOOD.replace("  learn:", valid).replace("[answers, scores]", "[answers, scores, valid]")
    )


@pytest.mark.parametrize(
    "function",
    ["mine.py:short", "mine.py:any_of", "mine.py:by_hand", "mine.py:mean", "starred.py:sqrt", "mine:short"],
)
def test_a_function_that_is_there_or_may_be_has_no_problem(function: str) -> None:
    assert filtered(function) == []


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (
            "mine.py:shot",
            "mine.py has no function 'shot' (allowed: short, long, any_of, later); did you mean 'short'?",
        ),
        (
            "mine.py:long",
            "long takes response, words, limit, and is called with prompt, response; make `columns` and its "
            "arguments the same: words is not given and prompt is not taken",
        ),
        ("mine.py:later", "later is async; write it as a plain function"),
        ("torn.py:short", "torn.py is no Python: '(' was never closed (<unknown>, line 1); mend the file"),
        (
            "gone.py:short",
            "there is no file 'gone.py'; give a path from the working directory, or an absolute one",
        ),
    ],
)
def test_a_function_that_cannot_be_called_is_told(function: str, told: str) -> None:
    assert filtered(function) == [f"g.yaml:10: nodes.valid.function: {told}"]


def with_type(name: str, keys: str = "") -> list[str]:
    (file,) = (path.name for path in Path.cwd().glob("types_*.py"))
    node = f'  loud: {{kind: "{file}:{name}", inputs: [answers]{keys}}}\n  learn:'
    return [problem.replace(file, "types.py") for problem in problems_of(GOOD.replace("  learn:", node))]


def test_a_node_type_without_a_fault_is_like_any_other() -> None:
    assert with_type("Whole") == [
        "warning: g.yaml:10: nodes.loud: nobody reads loud; name the node in the inputs of one that does, or "
        "remove it"
    ]


@pytest.mark.parametrize(
    ("name", "keys", "told"),
    [
        (
            "Hole",
            "",
            ".kind: types.py has no Class 'Hole'; it has Asking, Bare, Full, Keyed, Keys, Listed, "
            "Lost, Mistyped, Mute, Placed, Unready, Untyped, Whole, dataclass",
        ),
        (
            "Unready",
            "",
            ".kind: types.py:Unready has no method setup; see headrace.services.own.NodeType",
        ),
        (
            "Mute",
            "",
            ".kind: types.py:Mute: its process yields nothing; write `async def` and `yield Output(...)`",
        ),
        (
            "Full",
            "",
            ".kind: types.py:Full: its capacity is 0; it must be a whole number of at least 1, the rows that "
            "a replica may hold at once",
        ),
        (
            "Bare",
            "",
            ".kind: types.py:Bare: its Options are <class 'dict'>; they must be a dataclass that "
            "extends Placed",
        ),
        (
            "Keyed",
            ", leters: xyz",
            ".leters: a types.py:Keyed has no key 'leters' (allowed: kind, inputs, replicas, autoscale, "
            "threads, cpus, gpus, resources, placement, on_failure, stalled_after_s, letters); did you mean "
            "'letters'?",
        ),
        (
            "Untyped",
            "",
            ".kind: types.py:Untyped: its writes give loud the type 'float'; types are bool, int8, uint8, "
            "int32, int64, float32, float64, string, json, list<bool>, list<int8>, list<uint8>, list<int32>, "
            "list<int64>, list<float32>, list<float64>",
        ),
        (
            "Listed",
            "",
            ".kind: types.py:Listed: its reads are ['response_ids']; they must be a mapping from columns "
            "to types",
        ),
        (
            "Asking",
            "",
            ".kind: types.py:Asking: AttributeError: 'Placed' object has no attribute 'column'; see "
            "headrace.services.own.NodeType",
        ),
        (
            "Lost",
            "",
            ": it reads loudness, which none of answers, prompts writes (allowed: response_ids, logprobs, "
            "versions, loss_mask, finish_reason, retokenises, prompt_ids, example); name the node that "
            "writes it in the inputs",
        ),
        (
            "Mistyped",
            "",
            ": it reads response_ids as list<int64>, and answers writes it as list<int32>; let answers write "
            "list<int64>, or another column",
        ),
    ],
)
def test_a_node_type_with_a_fault_is_told(name: str, keys: str, told: str) -> None:
    errors = [problem for problem in with_type(name, keys) if not problem.startswith("warning")]
    assert errors == [f"g.yaml:10: nodes.loud{told}"]


def test_a_node_type_in_no_file_is_told() -> None:
    text = GOOD.replace("  learn:", '  loud: {kind: "gone.py:Loud", inputs: [answers]}\n  learn:')
    (problem,) = problems_of(text)
    assert problem.startswith("g.yaml:10: nodes.loud.kind: ") and "gone.py" in problem
