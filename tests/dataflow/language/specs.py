"""Random graphs of every kind of node, made from the annotations of the options classes alone."""

import dataclasses
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from headrace.algorithms.bounds import Range
from headrace.dataflow.language.fields import keys
from headrace.dataflow.language.spec import OPTIONS, GraphSpec, NodeSpec
from headrace.dataflow.language.tree import node_keys
from headrace.services.options import PolicyOptions

FAR = 10**12

names = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20).filter(
    lambda text: text != "???"
)
"""`???` is what OmegaConf calls a missing value."""
code_paths = st.builds(
    "{}:{}".format, st.sampled_from(["a.b", "../x y.py", "C:/d.py"]), st.sampled_from(["f", "Gß"])
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-FAR, FAR) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    bool: st.booleans(),
    int: st.integers(-FAR, FAR),
    float: st.floats(-FAR, FAR),
    NoneType: st.none(),
    Any: plain,
}


@cache
def values(kind: Any) -> st.SearchStrategy[Any]:
    """What a key of this annotation may hold, once typed."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return numbers(arguments[0], arguments[1]) if isinstance(arguments[1], Range) else code_paths
    if origin in (Union, UnionType):
        return st.one_of(*map(values, arguments))
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, arguments))
    if origin is dict:
        return st.dictionaries(names, values(arguments[1]), max_size=3)
    return options(kind) if dataclasses.is_dataclass(kind) else SCALARS[kind]


def numbers(kind: type, bounds: Range) -> st.SearchStrategy[Any]:
    least = next((each for each in (bounds.ge, bounds.gt) if each is not None), -FAR)
    most = next((each for each in (bounds.le, bounds.lt) if each is not None), FAR)
    if kind is int:
        return st.integers(int(least) + (bounds.gt is not None), int(most) - (bounds.lt is not None))
    finite = st.floats(
        least,
        most,
        exclude_min=bounds.gt is not None,
        exclude_max=bounds.lt is not None,
        allow_infinity=False,
    )
    return finite | st.just(float("inf")) if bounds.infinite else finite


@st.composite
def options(draw: st.DrawFn, cls: Any) -> Any:
    """Options with a few keys set; what a class does not let stand together is left at its defaults."""
    members = {key.name: key for key in keys(cls).values() if key.name != "kind"}
    free = [name for name, key in members.items() if not key.required]
    chosen = draw(st.sets(st.sampled_from(free), max_size=4)) if free else set[str]()
    needed = {key.field: draw(values(key.type)) for key in members.values() if key.required}
    further = {members[name].field: draw(values(members[name].type)) for name in sorted(chosen)}
    try:
        return cls(**needed, **further)
    except ValueError:
        return made_or_reject(cls, needed)


def made_or_reject(cls: Any, needed: dict[str, Any]) -> Any:
    try:
        return cls(**needed)
    except ValueError:
        from hypothesis import reject

        reject()


@st.composite
def nodes(draw: st.DrawFn) -> NodeSpec:
    kind = draw(st.sampled_from(sorted(OPTIONS)))
    edges: dict[str, Any] = {}
    if "inputs" in node_keys(kind):
        edges["inputs"] = tuple(draw(st.lists(names, min_size=1, max_size=3)))
    if "policy" in node_keys(kind):
        edges["policy"] = draw(names)
    return NodeSpec(kind=kind, options=draw(options(OPTIONS[kind])), **edges)


@st.composite
def graphs(draw: st.DrawFn) -> GraphSpec:
    settings = {
        key.name: draw(values(key.type))
        for key in keys(GraphSpec).values()
        if key.name not in ("name", "policies", "nodes")
    }
    return GraphSpec(
        name=draw(names),
        policies=draw(st.dictionaries(names, options(PolicyOptions), min_size=1, max_size=3)),
        nodes=draw(st.dictionaries(names, nodes(), min_size=1, max_size=4)),
        **settings,
    )
