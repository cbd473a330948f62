"""The fields of an options class: their types, defaults and the help that stands under each.

The help is the string literal under a field, read from the source once; error messages and
`headrace keys` are made from it, so it is written in one place.
"""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from headrace.algorithms.by_path import Place

_SCALAR_NAMES: Final = {int: "whole number", float: "number", str: "text", bool: "true or false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key a user may set."""

    name: str
    field: str
    """Of the dataclass: `as_` for the key `as`, which is a word of Python's."""
    type: Any
    """The annotation, bounds included."""
    required: bool
    default: Any
    """Meaningless where `required`."""
    help: str
    """For people who write YAML: None is called null."""


@cache
def keys(cls: type) -> dict[str, Key]:
    """The keys of a dataclass by name, inherited ones first, in the order written."""
    hints = get_type_hints(cls, include_extras=True)
    texts = {name: text for base in reversed(cls.__mro__) for name, text in _help(base)}
    made = [_key(field, hints[field.name], texts) for field in dataclasses.fields(cls)]
    return {key.name: key for key in made}


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A path that was set somewhere within options."""

    path: tuple[str, ...]
    """Keys that lead to it."""
    place: Place
    value: str


def placed(value: Any, path: tuple[str, ...] = ()) -> Iterator[Placed]:
    """Every path of a user's code or data below `value`, a dataclass of options or a tuple of them."""
    if isinstance(value, tuple):
        for index, member in enumerate(value):
            yield from placed(member, (*path, str(index)))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for name, key in keys(type(value)).items():
            member = getattr(value, name)
            if isinstance(member, str) and (place := _place(key.type)) is not None:
                yield Placed(path=(*path, name), place=place, value=member)
            else:
                yield from placed(member, (*path, name))


def with_places(value: Any, change: Callable[[Place, str], str]) -> Any:
    """`value` with every path that `placed` finds changed."""
    if isinstance(value, tuple):
        return tuple(with_places(member, change) for member in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    new: dict[str, Any] = {}
    for name, key in keys(type(value)).items():
        member = getattr(value, name)
        place = _place(key.type) if isinstance(member, str) else None
        moved = with_places(member, change) if place is None else change(place, member)
        if moved is not member and moved != member:
            new[name] = moved
    return dataclasses.replace(value, **new) if new else value


def _place(kind: Any) -> Place | None:
    """The mark of an annotation, `| None` or not."""
    if get_origin(kind) is Annotated:
        return next((mark for mark in get_args(kind)[1:] if isinstance(mark, Place)), None)
    if get_origin(kind) in (Union, UnionType):
        return next(filter(None, map(_place, get_args(kind))), None)
    return None


def type_name(kind: Any) -> str:
    """A type as YAML has it, e.g. "whole number, at least 1" or "copy | jsonl"."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        bounds = arguments[1]
        return f"{type_name(arguments[0])}{', ' if isinstance(bounds, Place) else ' '}{bounds}"
    if origin in (Union, UnionType):
        return " | ".join("null" if member is NoneType else type_name(member) for member in arguments)
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin is tuple:
        many = len(arguments) == 2 and arguments[1] is Ellipsis
        return f"list of {type_name(arguments[0])}" if many else f"list of {len(arguments)}"
    if origin is dict:
        return "mapping" if arguments[1] is Any else f"mapping to {type_name(arguments[1])}"
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        tag = keys(kind).get("kind")
        return str(tag.default) if tag and isinstance(tag.default, str) else "mapping"
    return _SCALAR_NAMES.get(kind, str(kind))


def _key(field: "dataclasses.Field[Any]", hint: Any, texts: dict[str, str]) -> Key:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return Key(
        name=field.name.rstrip("_"),
        field=field.name,
        type=hint,
        required=default is MISSING,
        default=default,
        help=texts.get(field.name, ""),
    )


def _help(cls: type) -> Iterator[tuple[str, str]]:
    if not dataclasses.is_dataclass(cls):
        return
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    for field, text in zip(body.body, body.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(help_text))):
                yield name, re.sub(r"\bNone\b", "null", " ".join(help_text.split()))
