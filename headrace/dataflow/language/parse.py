"""From a YAML file, a shipped name or a run directory, with overrides, to a `GraphSpec` and back.

The order is: compose what the file includes, put the overrides in, resolve interpolations, type the values.
Interpolations (`${staleness}`) are OmegaConf's and are resolved here; everything wrong is raised
together as one `GraphError`, each problem with its file and line.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from headrace.dataflow.language.include import composed, shown
from headrace.dataflow.language.layer import Layer, merged, read, read_file, unresolved
from headrace.dataflow.language.overrides import put, settings_of
from headrace.dataflow.language.places import Places
from headrace.dataflow.language.problems import GraphError, Problem
from headrace.dataflow.language.rooted import found, found_kinds
from headrace.dataflow.language.shipped import configs, find
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.language.tree import from_tree, plain, to_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed graph and where its values were written."""

    spec: GraphSpec
    places: Places


def load(target: str, overrides: Sequence[str] = ()) -> Document:
    """Parses a path, a shipped name or a run directory. Raises GraphError with every problem found."""
    path = find(target)
    file = shown(path)
    return parse(read_file(path, file=file), file=file, overrides=overrides, path=path)


def parse(
    text: str, *, file: str = "graph", overrides: Sequence[str] = (), path: Path | None = None
) -> Document:
    """Parses YAML text; `file` is what places are called, `path` where what it includes is looked for: beside
    that file, by default in the working directory. Raises GraphError.

    Code and data that are not in the working directory are taken from beside the file, from beside one that
    it includes, or from among the shipped.
    """
    folder, chain = (None, ()) if path is None else (path.parent, (path.resolve(),))
    layer = composed(read(text, file=file, folder=folder), folder=folder or Path.cwd(), chain=chain)
    problems: list[Problem] = []
    changed, placed = put(layer, settings_of(overrides, problems), problems)
    places = Places(
        file=file,
        lines=changed.lines,
        overrides={at: setting.place for at, setting in placed.items()},
    )
    if not problems:
        return Document(spec=_typed(changed, places), places=places)
    raise GraphError(places.locate(problems))


def from_layers(under: Layer, own: Mapping[str, Any]) -> GraphSpec:
    """The spec of a graph's own settings, policies and nodes over what it includes. Raises GraphError."""
    tree = {key: plain(value) for key, value in own.items()}
    tree |= {key: {name: plain(each) for name, each in own[key].items()} for key in ("policies", "nodes")}
    layer = merged(under, Layer(file="", tree=escaped(tree), lines={}))
    return _typed(layer, layer.places)


def _typed(layer: Layer, places: Places) -> GraphSpec:
    folders = (*layer.folders, configs())
    tree = found_kinds(resolved_tree(layer.tree, places), folders)
    spec, problems = from_tree(tree, also=("include",))
    if spec is None:
        raise GraphError(places.locate(problems))
    return found(spec, folders)


def to_yaml(spec: GraphSpec, *, resolved: bool = False) -> str:
    """YAML that parses to an equal spec; `resolved` writes every default out."""
    return dump(escaped(to_tree(spec, resolved=resolved)))


def dump(tree: Mapping[str, Any]) -> str:
    """Plain values as YAML that is read back as the same."""
    return yaml.dump(
        tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110
    )


def resolved_tree(tree: dict[str, Any], places: Places) -> dict[str, Any]:
    """`tree` with its interpolations resolved. Raises GraphError for one that leads nowhere."""
    try:
        plain = OmegaConf.to_container(OmegaConf.create(tree), resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise GraphError(places.locate([unresolved(error)])) from error
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


UNICODE_BREAK = re.compile("[\x85\u2028\u2029]")


class _Dumper(yaml.SafeDumper):
    """Quotes text that the loader would take for a number, such as '1e-4'."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    """Quoted where YAML would read a number, escaped where it would fold one of its rarer line breaks."""
    numeric = re.match(r"[-+.\d]", value) is not None
    style = '"' if UNICODE_BREAK.search(value) else "'" if numeric else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def escaped(value: Any) -> Any:
    """Plain values with the text that would be an interpolation, escaped so that it stays text."""
    if isinstance(value, dict):
        return {key: escaped(member) for key, member in value.items()}
    if isinstance(value, list):
        return [escaped(member) for member in value]
    if isinstance(value, str):
        return re.sub(r"(\\*)\$\{", lambda match: match[1] * 2 + r"\${", value)
    return value
