"""Composition: a file includes others, by path or shipped name, renamed and changed, and lies over them.

What comes out is one flat layer in which every value still has the line of the file that wrote it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any

from headrace.dataflow.language.convert import INVALID, convert
from headrace.dataflow.language.layer import Layer, merged, read, read_file
from headrace.dataflow.language.overrides import Setting, members, put
from headrace.dataflow.language.problems import GraphError, Path, Problem, listing, suggestion
from headrace.dataflow.language.renaming import SECTIONS, Names, renamed
from headrace.dataflow.language.shipped import fragments, shipped
from headrace.dataflow.language.tree import NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Include:
    """A graph, or a part of one, taken into another."""

    graph: str
    """A shipped name (grpo_copy_cpu, fragments/copy_task), or a path from the folder of the file."""
    as_: str | None = None
    """Prefix, with `_` behind it, of the names of its nodes and policies; null: they keep their names."""
    set: dict[str, Any] = field(default_factory=dict)
    """Values by dotted key, set in it before anything is renamed; null unsets, or takes a node out."""


Included = tuple[str | Include, ...]
"""What `include` holds; a bare text is a graph without changes."""


def composed(layer: Layer, *, folder: FilePath, chain: tuple[FilePath, ...] = ()) -> Layer:
    """`layer` over all that it includes; `folder`: where its paths start; `chain`: the files that led to it.

    Raises GraphError with every include that cannot be read or set.
    """
    problems: list[Problem] = []
    under = Layer(file=layer.file, tree={}, lines={})
    for index, include in enumerate(_entries(layer, problems)):
        at = ("include", str(index))
        try:
            under = merged(under, included(include, layer, at, folder=folder, chain=chain))
        except GraphError as error:
            problems.extend(error.problems)
    if problems:
        raise GraphError(layer.places.locate(problems))
    own = {key: value for key, value in layer.tree.items() if key != "include"}
    return merged(under, replace(layer, tree=own))


def included(
    include: Include, layer: Layer, at: Path, *, folder: FilePath, chain: tuple[FilePath, ...] = ()
) -> Layer:
    """The layer that an include gives; it stands at path `at` of `layer`. Raises GraphError."""
    problems: list[Problem] = []
    path = _found(include.graph, folder, at).resolve()
    if path in chain:
        circle = " -> ".join(map(shown, [*chain[chain.index(path) :], path]))
        wrong, way_out = f"the includes form a circle: {circle}", "take one of them out"
        raise GraphError(layer.places.locate([Problem(path=at, wrong=wrong, way_out=way_out)]))
    text = read_file(path, file=shown(path))
    part = composed(
        read(text, file=shown(path), folder=path.parent), folder=path.parent, chain=(*chain, path)
    )
    part = _with_settings(part, include.set, layer, (*at, "set"), problems)
    if include.as_ is not None and not NAME.fullmatch(include.as_):
        wrong, allowed = f"got '{include.as_}'", "a letter, then letters, digits, - and _"
        problems.append(
            Problem(path=(*at, "as"), wrong=wrong, allowed=allowed, way_out="choose another prefix")
        )
    if problems:
        raise GraphError(layer.places.locate(problems))
    return renamed(part, include.as_) if include.as_ is not None else part


def nothing() -> Layer:
    """The layer that a graph built in Python starts to include on."""
    return Layer(file="", tree={}, lines={})


def taken_in(include: Include, *, under: Layer, folder: FilePath) -> tuple[Layer, Names]:
    """An include over what was included before, and the names of its members, by those that it has itself.

    Raises GraphError.
    """
    part = included(include, nothing(), ("include", include.graph), folder=folder)
    whole, prefix = merged(under, part), f"{include.as_}_" if include.as_ is not None else ""
    names = {
        section: {
            name.removeprefix(prefix): name
            for name in members(part.tree, section)
            if name in members(whole.tree, section)
        }
        for section in SECTIONS
    }
    return whole, names


def shown(path: FilePath) -> str:
    """A file as messages call it: from the working directory where it lies below that."""
    return os.path.relpath(path) if path.is_relative_to(FilePath.cwd()) else str(path)


def _entries(layer: Layer, problems: list[Problem]) -> list[Include]:
    if "include" not in layer.tree:
        return []
    made = convert(layer.tree["include"], Included, ("include",), problems, help="A list of names or paths")
    if made is INVALID:
        return []
    return [Include(graph=entry) if isinstance(entry, str) else entry for entry in made]


def _found(written: str, folder: FilePath, at: Path) -> FilePath:
    if (folder / written).is_file():
        return folder / written
    known = {**fragments(), **shipped()}
    if written in known:
        return known[written]
    problem = Problem(
        path=at,
        wrong=f"there is no file '{shown(folder / written)}' and no shipped dataflow '{written}'",
        allowed=listing(known),
        way_out=suggestion(
            written, known, otherwise="give a path from this file's folder, or a shipped name"
        ),
    )
    raise GraphError([problem])


def _with_settings(
    part: Layer, values: Mapping[str, Any], layer: Layer, at: Path, problems: list[Problem]
) -> Layer:
    settings = [
        Setting(key=key, value=value, place=str(layer.lines.get((*at, key), "")), path=(*at, key))
        for key, value in values.items()
    ]
    changed, placed = put(part, settings, problems)
    lines = dict(changed.lines)
    for path, setting in placed.items():
        depth = len(setting.path)
        lines |= {(*path, *p[depth:]): line for p, line in layer.lines.items() if p[:depth] == setting.path}
    return replace(changed, lines=lines)
