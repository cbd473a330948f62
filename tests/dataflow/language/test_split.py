"""However a graph is split over files, it is the same graph; however its text is damaged, it is told so."""

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.dataflow import GraphSpec
from headrace.dataflow.check import check
from headrace.dataflow.language.parse import dump, escaped, parse
from headrace.dataflow.language.problems import GraphError
from headrace.dataflow.language.shipped import shipped
from headrace.dataflow.language.tree import to_tree
from tests.dataflow.language.specs import graphs

DAMAGE = [
    "",
    " ",
    "\n",
    ":",
    ": ",
    "[",
    "]",
    "{",
    "}",
    "'",
    "#",
    "-",
    "&a ",
    "*a",
    "!",
    "${",
    "null",
    "1e9",
    "\t",
    ".",
    "x",
]
TEXTS = {name: path.read_text() for name, path in shipped().items()}

unhurried = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)


def split(draw: st.DrawFn, tree: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two mappings that make `tree`, the second over the first."""
    under, over = dict[str, Any](), dict[str, Any]()
    for key, value in tree.items():
        where = draw(st.sampled_from(["under", "over", "both"]))
        if where == "both" and isinstance(value, dict) and value:
            under[key], over[key] = split(draw, value)
        elif where == "over":
            over[key] = value
        else:
            under[key] = value
    return under, over


@unhurried
@given(graphs(), st.data())
def test_a_graph_split_over_two_files_is_the_same_graph(
    tmp_path: Path, spec: GraphSpec, data: st.DataObject
) -> None:
    tree = escaped(to_tree(spec))
    under, over = data.draw(st.composite(split)(tree))
    (tmp_path / "under.yaml").write_text(dump(under))
    assert parse(dump({"include": ["under.yaml"], **over}), path=tmp_path / "over.yaml").spec == spec


@unhurried
@given(
    st.sampled_from(sorted(TEXTS)), st.lists(st.tuples(st.floats(0, 1), st.sampled_from(DAMAGE)), max_size=4)
)
def test_a_damaged_text_is_refused_in_plain_words_or_is_another_graph(
    name: str, damage: list[tuple[float, str]]
) -> None:
    text = TEXTS[name]
    for place, put_in in damage:
        at = int(place * len(text))
        text = text[:at] + put_in + text[at + 1 :]
    try:
        check(parse(text).spec)
    except GraphError as error:
        assert all(problem.wrong and problem.way_out for problem in error.problems)
