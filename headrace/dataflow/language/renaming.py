"""A graph under other names, so that it can stand in another beside its like.

Only what it defines is renamed: names that it refers to and leaves open are the including graph's.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from headrace.dataflow.language.layer import Layer
from headrace.dataflow.language.overrides import members

Names = Mapping[str, Mapping[str, str]]
"""By section, the full name of each member by the one in its own file."""

SECTIONS: Final = ("nodes", "policies")
_REFERRING: Final = {"inputs": "nodes", "policy": "policies", "barrier": "policies"}
"""Keys whose texts are names, and the section that these are of."""
_INTERPOLATED: Final = re.compile(r"(\$\{\s*)(nodes|policies)\.([A-Za-z][A-Za-z0-9_-]*)")


def renamed(layer: Layer, prefix: str) -> Layer:
    """`layer` with `prefix_` before the names of its nodes and policies, wherever it refers to them."""
    names = {
        section: {name: f"{prefix}_{name}" for name in members(layer.tree, section)} for section in SECTIONS
    }
    tree = {
        key: _referring(value, names.get(_REFERRING.get(key, "")), names) for key, value in layer.tree.items()
    }
    for section in set(SECTIONS) & set(tree):
        tree[section] = {
            names[section][name]: _member(member, names)
            for name, member in members(layer.tree, section).items()
        }
    lines = {
        (path[0], names[path[0]].get(path[1], path[1]), *path[2:])
        if len(path) > 1 and path[0] in names
        else path: line
        for path, line in layer.lines.items()
    }
    return replace(layer, tree=tree, lines=lines)


def _member(member: Any, names: Names) -> Any:
    if not isinstance(member, Mapping):
        return member
    return {
        key: _referring(value, names.get(_REFERRING.get(key, "")), names) for key, value in member.items()
    }


def _referring(value: Any, own: Mapping[str, str] | None, names: Names) -> Any:
    """`value` with the new names in its interpolations and, where it consists of names, as texts."""
    if isinstance(value, Mapping):
        return {key: _referring(member, own, names) for key, member in value.items()}
    if isinstance(value, list):
        return [_referring(member, own, names) for member in value]
    if not isinstance(value, str):
        return value
    if own and value in own:
        return own[value]
    return _INTERPOLATED.sub(lambda m: f"{m[1]}{m[2]}.{names[m[2]].get(m[3], m[3])}", value)
