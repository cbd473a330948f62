"""The reference of a dataflow's keys as Markdown, made from the options classes: `docs/reference.md`.

Options that stand under a key have a section of their own, written once however many keys they stand under.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from headrace.algorithms.options import GrpoOptions
from headrace.dataflow.language.fields import Key, keys, type_name
from headrace.dataflow.language.include import Include
from headrace.dataflow.language.keys_text import options_of, value_text
from headrace.dataflow.language.spec import OPTIONS, GraphSpec, NodeSpec
from headrace.dataflow.language.tree import node_keys
from headrace.services.kinds import KINDS
from headrace.services.options import CopyData, CopyVerifier, Placed, PolicyOptions

SHARED_BY: Final = 5
"""Kinds that have a key in common, from which on it stands in a table for all of them."""

LEAST: Final[Mapping[str, Mapping[str, Any]]] = {
    "source": {"dataset": CopyData()},
    "reward": {"verifier": CopyVerifier()},
    "judge": {"base_url": "", "model": "", "template": ""},
    "trainer": {"algorithm": GrpoOptions()},
    "branch": {"function": "module:function"},
    "join": {"column": "COLUMN"},
    "filter": {"function": "module:function"},
    "eval": {"dataset": CopyData(), "verifier": CopyVerifier()},
}
"""Options that a kind has to be given."""
CHOSEN: Final[Mapping[str, str]] = {
    "transform": "those that it is told.",
    "sink": "those that it is told, or the texts and all that its inputs write.",
}
"""Kinds whose columns the graph says one by one."""

HEAD: Final = """\
# Keys of a dataflow

Made by `headrace keys --markdown`; a test holds it against the code. `headrace keys KIND` shows a part of it,
`headrace schema` gives the same to an editor. Options that have a `kind` may be written as the bare kind
where no other key of theirs is required."""


def reference() -> str:
    """The whole document."""
    return "\n".join(_Writer().document()) + "\n"


class _Writer:
    """Writes sections, and keeps those that they refer to for later."""

    def __init__(self) -> None:
        self._titles: dict[tuple[type[Any], ...], str] = {}

    def document(self) -> Iterator[str]:
        yield HEAD
        own = [key for name, key in keys(GraphSpec).items() if name not in ("policies", "nodes")]
        yield from ["", "## The file", "", _first_line(GraphSpec), "", *self._table(own)]
        yield from [
            "",
            "`policies` and `nodes` are mappings from names; `include` is a list of these, or of names:",
        ]
        yield from ["", "### include", "", _first_line(Include), "", *self._table(keys(Include).values())]
        yield from ["", "## A policy", "", _first_line(PolicyOptions), ""]
        yield from self._table(keys(PolicyOptions).values())
        yield from ["", "## Nodes", "", "Keys of every node that is a service:"]
        yield from ["", *self._table(keys(Placed).values())]
        for kind, options in OPTIONS.items():
            yield from ["", f"### {kind}", "", _first_line(options), "", *self._table(_of_node(kind), kind)]
            yield from ["", *_columns(kind)]
        yield from ["", "## Options"]
        written: set[tuple[type[Any], ...]] = set()
        while waiting := [classes for classes in self._titles if classes not in written]:
            for classes in waiting:
                written.add(classes)
                yield from ["", f"### {self._titles[classes]}", *self._options(classes)]

    def _options(self, classes: tuple[type[Any], ...]) -> Iterator[str]:
        if len(classes) == 1 and "kind" not in keys(classes[0]):
            yield from [
                "",
                _first_line(classes[0]),
                "",
                *self._table(keys(classes[0]).values(), self._titles[classes]),
            ]
            return
        shared = _shared(classes)
        if shared:
            yield from [
                "",
                "Keys that several kinds have; where a kind has another default, its own table says so.",
            ]
            yield from ["", *self._table(shared.values(), self._titles[classes])]
        for cls in classes:
            own = {name: key for name, key in keys(cls).items() if name != "kind"}
            differ = [key for name, key in own.items() if shared.get(name) != key]
            yield from ["", f"**{type_name(cls)}**: {_first_line(cls)}" + _which(shared, own)]
            if differ:
                yield from ["", *self._table(differ, type_name(cls))]

    def _table(self, members: Iterable[Key], owner: str = "") -> Iterator[str]:
        yield from ["| key | type | default | meaning |", "|---|---|---|---|"]
        for key in members:
            default = "required" if key.required else f"`{value_text(key.default)}`"
            yield f"| `{key.name}` | {self._type(key, owner)} | {default} | {_cell(key.help)} |"

    def _type(self, key: Key, owner: str) -> str:
        name, classes = _cell(type_name(key.type)), tuple(options_of(key.type))
        if not classes:
            return name
        if classes not in self._titles:
            taken = {*OPTIONS, *self._titles.values()}
            self._titles[classes] = f"{key.name} of {owner}" if key.name in taken else key.name
        title = self._titles[classes]
        return f"[{name}](#{title.replace(' ', '-')})"


def _columns(kind: str) -> Iterator[str]:
    """What a kind of node reads and writes, with the least options that it can have."""
    declared = KINDS[kind]
    if kind in CHOSEN:
        yield f"Columns: {CHOSEN[kind]}"
        return
    options = declared.options(**LEAST.get(kind, {}))
    yield f"Reads {_typed(declared.reads(options).items())}."
    if written := declared.writes(options):
        yield f"Writes {_typed((column.name, column.dtype) for column in written)}."


def _typed(columns: Iterable[tuple[str, str | None]]) -> str:
    return ", ".join(f"`{name}`" + (f" ({dtype})" if dtype else "") for name, dtype in columns) or "no column"


def _of_node(kind: str) -> Iterator[Key]:
    """The keys of a kind of node beside those of every service."""
    for name in node_keys(kind)[1:]:
        key = keys(NodeSpec)[name]
        yield replace(key, required=True, type=str if name == "policy" else key.type)
    own = keys(OPTIONS[kind])
    yield from (key for name, key in own.items() if key != keys(Placed).get(name))


def _which(shared: Mapping[str, Key], own: Mapping[str, Key]) -> str:
    """Which of the shared keys a kind has."""
    has = [f"`{name}`" for name in shared if name in own]
    lacks = [f"`{name}`" for name in shared if name not in own]
    if not shared:
        return ""
    if not lacks:
        return " Has all of the shared keys."
    if not has:
        return " Has none of the shared keys."
    if len(has) < len(lacks):
        return f" Of the shared keys it has {', '.join(has)}."
    return f" Of the shared keys it lacks {', '.join(lacks)}."


def _shared(classes: Iterable[type[Any]]) -> dict[str, Key]:
    """The keys that many of the classes have alike, each with its commonest default."""
    alike: dict[str, Counter[str]] = {}
    found: dict[tuple[str, str], Key] = {}
    for cls in classes:
        for name, key in keys(cls).items():
            alike.setdefault(name, Counter())[repr(key)] += 1
            found.setdefault((name, repr(key)), key)
    return {
        name: found[name, counts.most_common(1)[0][0]]
        for name, counts in alike.items()
        if name != "kind" and counts.total() >= SHARED_BY
    }


def _first_line(cls: type[Any]) -> str:
    text = (cls.__doc__ or "").strip()
    return "" if text.startswith(f"{cls.__name__}(") else text.splitlines()[0]


def _cell(text: str) -> str:
    return text.replace("|", r"\|")
