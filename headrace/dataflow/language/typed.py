"""What may stand under a key of a graph's plain mapping, found from the options before it is typed."""

import dataclasses
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from headrace.dataflow.language.fields import keys
from headrace.dataflow.language.spec import OPTIONS, NodeSpec
from headrace.dataflow.language.tree import is_kind, node_keys
from headrace.services.kinds import is_path, kind_of


def type_below(kind: Any, tree: Mapping[str, Any], key: str) -> Any:
    """The annotation of `key` in `tree`, which is annotated `kind`: Any where every key may stand, None where
    this one may not."""
    if kind is Any:
        return Any
    if get_origin(kind) is dict:
        return get_args(kind)[1]
    if kind is NodeSpec:
        return _in_node(tree, key)
    return next((keys(cls)[key].type for cls in _classes(kind, tree) if key in keys(cls)), None)


def may_be_null(kind: Any) -> bool:
    return kind is Any or kind is None or NoneType in get_args(kind)


def _in_node(tree: Mapping[str, Any], key: str) -> Any:
    """In a node without a kind, a part of one, any kind's key; where a class is not found, any key at all."""
    kind: Any = tree.get("kind")
    if isinstance(kind, str) and is_path(kind) and not is_kind(kind, (), []):
        return Any
    for each in [kind] if is_kind(kind, (), []) else OPTIONS:
        if key in node_keys(each):
            return keys(NodeSpec)[key].type
        if key in (own := keys(kind_of(each).options)):
            return own[key].type
    return None


def _classes(kind: Any, tree: Mapping[str, Any]) -> Iterator[type[Any]]:
    """The options classes that `tree` may become: those of its kind, or all while it names none."""
    for member in get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,):
        if isinstance(member, type) and dataclasses.is_dataclass(member):
            tag = keys(member).get("kind")
            if tag is None or tree.get("kind", tag.default) == tag.default:
                yield member
