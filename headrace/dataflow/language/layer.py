"""A graph's plain values with the line of each, as one file gives them, and how one layer lies over another.

A layer is never changed in place: what composes layers makes new ones.
"""

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from headrace.dataflow.language.places import Line, Places, lines_of
from headrace.dataflow.language.problems import GraphError, Path, Problem
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.language.typed import may_be_null, type_below

_KEYS: Final = "write the graph's keys: name, steps, policies, nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The mapping of a whole graph or of a part of one; interpolations are unresolved."""

    file: str
    """What its place is called in messages."""
    tree: dict[str, Any]
    lines: dict[Path, Line] = field(repr=False)
    folders: tuple[FilePath, ...] = ()
    """Of the files that made it, the outermost first: where code and data that it names may lie."""

    @property
    def places(self) -> Places:
        return Places(file=self.file, lines=self.lines)


def read_file(path: FilePath, *, file: str) -> str:
    """The text of a YAML file. Raises GraphError for one that cannot be read as text."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _refusal(file, f"cannot be read: {error}", "give a text file in UTF-8") from error


def read(text: str, *, file: str, folder: FilePath | None = None) -> Layer:
    """The layer that YAML text holds; `folder`: of its file, if it has one.

    Raises GraphError for text that is not YAML or holds no mapping.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if not isinstance(root, yaml.MappingNode):
            raise _refusal(file, "the file holds no mapping", _KEYS)
        tree = _values(text, root, file)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise _refusal(file + line, f"not YAML: {error.problem}", "mend the line") from error
    except yaml.YAMLError as error:
        raise _refusal(file, f"not YAML: {' '.join(str(error).split())}", "mend the text") from error
    return Layer(file=file, tree=tree, lines=lines_of(root, file), folders=(folder,) if folder else ())


def _values(text: str, root: yaml.Node, file: str) -> dict[str, Any]:
    try:
        tree = OmegaConf.to_container(OmegaConf.create(text), resolve=False)
    except OmegaConfBaseException as error:
        raise GraphError(Places(file=file, lines=lines_of(root, file)).locate([unresolved(error)])) from error
    assert isinstance(tree, dict)
    return {str(key): value for key, value in tree.items()}


def unresolved(error: OmegaConfBaseException) -> Problem:
    """What is wrong with a value that cannot be read or an interpolation that leads nowhere."""
    path = tuple(re.findall(r"[^.\[\]]+", error.full_key or ""))
    wrong = f"cannot be resolved: {str(error.msg).splitlines()[0]}"
    return Problem(path=path, wrong=wrong, way_out="name an existing key as ${a.b}, or write the value")


def _refusal(place: str, wrong: str, way_out: str) -> GraphError:
    return GraphError([Problem(path=(), place=place, wrong=wrong, way_out=way_out)])


def merged(under: Layer, over: Layer) -> Layer:
    """`over` on top of `under`: mappings are merged key by key, everything else is replaced.

    A mapping of another `kind` replaces what lies under it. A null takes out the node, policy or key under
    it, but for a key that may be null.
    """
    replaced: set[Path] = set()
    tree = _merged(under.tree, over.tree, GraphSpec, (), replaced)
    return Layer(
        file=over.file,
        tree=tree,
        lines={**without(under.lines, replaced), **over.lines},
        folders=tuple(dict.fromkeys((*over.folders, *under.folders))),
    )


def without(lines: Mapping[Path, Line], replaced: Set[Path]) -> dict[Path, Line]:
    """The lines that stand neither at nor below a replaced path."""
    return {
        path: line
        for path, line in lines.items()
        if not any(path[:depth] in replaced for depth in range(1, len(path) + 1))
    }


def extendable(under: Any) -> dict[str, Any] | None:
    """The mapping that keys can be added to: a bare text stands for its kind, None is empty."""
    if under is None:
        return {}
    return {"kind": under} if isinstance(under, str) else under if isinstance(under, dict) else None


def _merged(
    under: Mapping[str, Any], over: Mapping[str, Any], kind: Any, path: Path, replaced: set[Path]
) -> dict[str, Any]:
    made = dict(under)
    for key, value in over.items():
        here, member = (*path, str(key)), type_below(kind, {**under, **over}, key)
        base = extendable(under.get(key))
        if value is None and key in under and not may_be_null(member):
            del made[key]
            replaced.add(here)
        elif base is not None and isinstance(value, dict) and not _is_of_another_kind(base, value):
            made[key] = _merged(base, value, member, here, replaced)
        else:
            made[key] = value
            replaced.add(here)
    return made


def _is_of_another_kind(under: Mapping[str, Any], over: Mapping[str, Any]) -> bool:
    return "kind" in under and "kind" in over and under["kind"] != over["kind"]
