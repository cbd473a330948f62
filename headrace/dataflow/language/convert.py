"""From plain YAML values to typed options: strict, complete, every problem collected.

Nothing is cast in silence: a whole number may stand where a number is due and the text "inf" for
infinity, nothing else. A conversion that finds problems returns `INVALID` and goes on with the rest.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

from headrace.algorithms.bounds import Range
from headrace.algorithms.by_path import Place
from headrace.dataflow.language.fields import Key, keys, type_name
from headrace.dataflow.language.problems import Path, Problem, listing, nearest, show, suggestion

INVALID: Final = object()
"""Stands for a value that could not be made; the reason is among the problems."""


def convert(value: Any, kind: Any, path: Path, problems: list[Problem], *, help: str = "") -> Any:
    """`value` as the annotation `kind` asks, or INVALID with its reasons appended to `problems`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if value is INVALID:
        return INVALID
    if origin is Annotated:
        number = convert(value, arguments[0], path, problems, help=help)
        return _bounded(number, arguments[1], path, problems, help)
    if origin in (Union, UnionType):
        members = [member for member in arguments if member is not NoneType]
        if value is None and NoneType in arguments:
            return None
        if len(members) == 1:
            return convert(value, members[0], path, problems, help=help)
        if all(map(dataclasses.is_dataclass, members)):
            return _tagged(value, members, path, problems)
        return _one_of(value, members, path, problems, help)
    if origin is Literal:
        return _literal(value, arguments, path, problems, help)
    if origin is tuple:
        return _tuple(value, arguments, path, problems, help)
    if origin is dict:
        return _mapping(value, arguments[1], path, problems, help)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _tagged(value, [kind], path, problems) if _tag(kind) else build(kind, value, path, problems)
    return _scalar(value, cast(type, kind), path, problems, help)


def build(
    cls: type, tree: Any, path: Path, problems: list[Problem], *, also: Sequence[str] = (), noun: str = ""
) -> Any:
    """A `cls` from a mapping of its fields, each converted.

    `also`: keys of the mapping that the caller reads itself; `noun`: what `cls` is called in messages.
    """
    if isinstance(tree, cls):
        return tree
    if not isinstance(tree, Mapping):
        problems.append(_refused(tree, f"a mapping with the keys {listing(keys(cls))}", path, ""))
        return INVALID
    known = keys(cls)
    names = [*also, *(name for name in known if name not in also)]
    problems.extend(unknown_keys(tree, names, path, noun))
    misspelt = meant(tree, names)
    values: dict[str, Any] = {}
    for name, key in known.items():
        if name in tree and name not in also:
            values[key.field] = convert(tree[name], key.type, (*path, name), problems, help=key.help)
        elif key.required:
            values[key.field] = INVALID
            if name not in misspelt:
                problems.append(_missing(key, path))
    if any(value is INVALID for value in values.values()):
        return INVALID
    try:
        return cls(**values)
    except ValueError as error:
        wrong, _, way_out = str(error).partition("; ")
        problems.append(Problem(path=path, wrong=wrong, way_out=way_out or "make them fit each other"))
        return INVALID


def unknown_keys(tree: Mapping[Any, Any], known: Sequence[str], path: Path, noun: str = "") -> list[Problem]:
    """A problem, with the nearest known key, for every key of `tree` that is not known."""
    what = f"{noun} has no key '{{}}'" if noun else "unknown key '{}'"
    return [
        Problem(
            path=(*path, str(key)),
            wrong=what.format(key),
            allowed=listing(known),
            way_out=suggestion(str(key), known, otherwise="remove it"),
        )
        for key in tree
        if key not in known
    ]


def meant(tree: Mapping[Any, Any], known: Sequence[str]) -> set[str | None]:
    """The known keys that unknown ones of `tree` were most likely meant to be: those are not missing too."""
    return {nearest(str(key), known) for key in tree if key not in known}


def misspelt_kind(
    tree: Mapping[Any, Any], classes: Iterable[type], path: Path, also: Sequence[str] = ()
) -> Problem | None:
    """What is wrong with a key that can only mean the `kind` that a mapping lacks; None without such a key.

    `classes`: what the mapping may become; `also`: further keys that it may have.
    """
    known = dict.fromkeys(["kind", *also, *(name for cls in classes for name in keys(cls))])
    for key in map(str, tree):
        if "kind" not in tree and key not in known and nearest(key, known) == "kind":
            return Problem(path=(*path, key), wrong=f"unknown key '{key}'", way_out="did you mean 'kind'?")
    return None


def _missing(key: Key, path: Path) -> Problem:
    return Problem(
        path=path,
        wrong=f"the key '{key.name}' is missing",
        way_out=f"add {key.name}: {key.help.rstrip('.') or 'it has no default'}",
    )


def _refused(value: Any, due: str, path: Path, help: str) -> Problem:
    return Problem(path=path, wrong=f"got {show(value)}", allowed=due, way_out=_way_out(path, help))


def _way_out(path: Path, help: str) -> str:
    name = next(key for key in reversed(path) if not key.isdigit()) if path else "it"
    return f"set {name}: {help.rstrip('.')}" if help else f"set {name} to what is allowed"


def _bounded(value: Any, bounds: Range | Place, path: Path, problems: list[Problem], help: str) -> Any:
    if value is INVALID or bounds.holds(value):
        return value
    unbounded = isinstance(bounds, Range) and not bounds.infinite and not math.isfinite(value)
    finite = "finite and " if unbounded else ""
    problems.append(_refused(value, f"{finite}{bounds}", path, help))
    return INVALID


def _tag(cls: type) -> str | None:
    """The `kind` of a member of a union; None for a plain class."""
    field = keys(cls).get("kind")
    return field.default if field else None


def _tagged(value: Any, classes: Sequence[type], path: Path, problems: list[Problem]) -> Any:
    if isinstance(value, tuple(classes)):
        return value
    by_kind = {str(_tag(cls)): cls for cls in classes}
    tree = {"kind": value} if isinstance(value, str) else value
    if isinstance(tree, Mapping) and (misspelt := misspelt_kind(tree, classes, path)) is not None:
        problems.append(misspelt)
        return INVALID
    if not isinstance(tree, Mapping) or "kind" not in tree:
        problems.append(
            Problem(
                path=path,
                wrong=f"got {show(value)}",
                allowed=listing(by_kind),
                way_out="name one, or write a mapping with its `kind` and keys",
            )
        )
        return INVALID
    kind = tree["kind"]
    if not isinstance(kind, str) or kind not in by_kind:
        problems.append(
            Problem(
                path=path if isinstance(value, str) else (*path, "kind"),
                wrong=f"got {show(kind)}",
                allowed=listing(by_kind),
                way_out=suggestion(str(kind), by_kind, otherwise="name one of these"),
            )
        )
        return INVALID
    return build(by_kind[kind], tree, path, problems, noun=kind)


def _one_of(value: Any, kinds: Sequence[Any], path: Path, problems: list[Problem], help: str) -> Any:
    for kind in kinds:
        refused: list[Problem] = []
        made = convert(value, kind, path, refused)
        if not refused:
            return made
    alike = [kind for kind in kinds if dataclasses.is_dataclass(kind) == isinstance(value, Mapping)]
    if len(alike) == 1:
        return convert(value, alike[0], path, problems, help=help)
    problems.append(_refused(value, " or ".join(map(type_name, kinds)), path, help))
    return INVALID


def _literal(value: Any, allowed: Sequence[Any], path: Path, problems: list[Problem], help: str) -> Any:
    if any(value == member and type(value) is type(member) for member in allowed):
        return value
    problems.append(
        Problem(
            path=path,
            wrong=f"got {show(value)}",
            allowed=listing(map(str, allowed)),
            way_out=suggestion(str(value), map(str, allowed), otherwise=_way_out(path, help)),
        )
    )
    return INVALID


def _tuple(value: Any, kinds: Sequence[Any], path: Path, problems: list[Problem], help: str) -> Any:
    variadic = len(kinds) == 2 and kinds[1] is Ellipsis
    if not isinstance(value, list | tuple) or not (variadic or len(value) == len(kinds)):
        due = "a list" if variadic else f"a list of {len(kinds)}"
        problems.append(_refused(value, due, path, help))
        return INVALID
    members = [kinds[0]] * len(value) if variadic else kinds
    made = [
        convert(item, member, (*path, str(index)), problems, help=help)
        for index, (item, member) in enumerate(zip(value, members, strict=True))
    ]
    return INVALID if any(item is INVALID for item in made) else tuple(made)


def _mapping(value: Any, kind: Any, path: Path, problems: list[Problem], help: str) -> Any:
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        if kind is Any or dataclasses.is_dataclass(kind):
            return dict(value)
        made = {
            key: convert(member, kind, (*path, key), problems, help=help) for key, member in value.items()
        }
        return INVALID if INVALID in made.values() else made
    problems.append(_refused(value, "a mapping with text for keys", path, help))
    return INVALID


def _scalar(value: Any, kind: type, path: Path, problems: list[Problem], help: str) -> Any:
    if kind is float and not isinstance(value, bool):
        if isinstance(value, int | float) and not math.isnan(value):
            return float(value)
        if value in ("inf", "infinity"):
            return math.inf
    elif kind is not float and type(value) is kind:
        return value
    problems.append(_refused(value, _DUE[kind], path, help))
    return INVALID


_DUE: Final = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
