"""The keys of a graph, its policies and nodes, as a person reads them; made from the options classes."""

import dataclasses
import textwrap
from collections.abc import Iterator
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from headrace.dataflow.language.fields import Key, keys, type_name
from headrace.dataflow.language.include import Include
from headrace.dataflow.language.spec import OPTIONS, GraphSpec, NodeSpec
from headrace.dataflow.language.tree import node_keys, plain
from headrace.services.kinds import kind_of
from headrace.services.options import PolicyOptions

SECTIONS: Final[dict[str, type[Any]]] = {
    "graph": GraphSpec,
    "include": Include,
    "policy": PolicyOptions,
    **{str(kind): options for kind, options in OPTIONS.items()},
}
"""What has keys, by the name it is asked for."""


def describe(section: str) -> str:
    """The keys of a section, or of a kind of the user's own by its path, one paragraph each."""
    cls = SECTIONS[section] if section in SECTIONS else kind_of(section).options
    edges = () if section in SECTIONS and section not in OPTIONS else node_keys(section)
    shared = [dataclasses.replace(keys(NodeSpec)[name], required=True) for name in edges]
    first_line = (cls.__doc__ or "").strip().splitlines()[0]
    return "\n".join([f"{section}: {first_line}", *_paragraphs([*shared, *keys(cls).values()], "  ")])


def _paragraphs(members: list[Key], indent: str) -> Iterator[str]:
    for key in members:
        if key.name == "kind":
            continue
        yield f"{indent}{key.name}: {type_name(key.type)}{_default(key)}"
        if key.help:
            yield textwrap.fill(
                key.help, 100, initial_indent=f"{indent}    ", subsequent_indent=f"{indent}    "
            )
        for option in options_of(key.type):
            yield from _option(option, f"{indent}    ")


def _option(cls: type[Any], indent: str) -> Iterator[str]:
    kind = keys(cls).get("kind")
    if kind is not None:
        yield f"{indent}{kind.default}: {(cls.__doc__ or '').strip().splitlines()[0]}"
    yield from _paragraphs(list(keys(cls).values()), f"{indent}  ")


def options_of(kind: Any) -> list[type[Any]]:
    """The options classes that a value of this type, or a member of it in a list, may be; nodes and policies
    have sections of their own."""
    if get_origin(kind) in (Union, UnionType):
        return [cls for member in get_args(kind) for cls in options_of(member)]
    if get_origin(kind) is tuple:
        return [*dict.fromkeys(cls for member in get_args(kind) for cls in options_of(member))]
    return [kind] if isinstance(kind, type) and dataclasses.is_dataclass(kind) else []


def _default(key: Key) -> str:
    if key.required:
        return ", required"
    default = key.default
    if dataclasses.is_dataclass(default) or default == {}:
        return ""
    return f", default {value_text(default)}"


def value_text(value: Any) -> str:
    """A default as YAML has it."""
    value = plain(value)
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{', '.join(map(value_text, value))}]"
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
