"""From a YAML file, a shipped name or a run directory, with overrides, to a `GraphSpec` and back.

Interpolations (`${staleness}`) are OmegaConf's and are resolved here; everything wrong is raised
together as one `GraphError`, each problem with its file and line.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

import headrace
from headrace.dataflow.language.overrides import apply
from headrace.dataflow.language.places import Places, lines_of
from headrace.dataflow.language.problems import GraphError, Problem, listing, suggestion
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.language.tree import from_tree, to_tree

RESOLVED_GRAPH = "graph.yaml"
"""Name of the graph in a run directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed graph and where its values were written."""

    spec: GraphSpec
    places: Places


def load(target: str, overrides: Sequence[str] = ()) -> Document:
    """Parses a path, a shipped name or a run directory. Raises GraphError with every problem found."""
    path = find(target)
    text = path.read_text(encoding="utf-8")
    file = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
    return parse(text, file=file, overrides=overrides)


def parse(text: str, *, file: str = "graph", overrides: Sequence[str] = ()) -> Document:
    """Parses YAML text; `file` is what places are called. Raises GraphError."""
    tree, places = _read(text, file)
    problems: list[Problem] = []
    places.overrides.update(apply(tree, overrides, problems))
    if not problems:
        spec, problems = from_tree(_resolve(tree, places))
        if spec is not None:
            return Document(spec=spec, places=places)
    raise GraphError(places.locate(problems))


def to_yaml(spec: GraphSpec, *, resolved: bool = False) -> str:
    """YAML that parses to an equal spec; `resolved` writes every default out."""
    return yaml.dump(
        _escaped(to_tree(spec, resolved=resolved)),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=110,
    )


def find(target: str) -> Path:
    """The YAML file that a path, a run directory or a shipped name stands for. Raises GraphError."""
    path = Path(target)
    if path.is_dir():
        path = path / RESOLVED_GRAPH
    if path.is_file():
        return path
    known = shipped()
    if target in known:
        return known[target]
    problem = Problem(
        path=(),
        place=target,
        wrong="there is no such file, run directory or shipped dataflow",
        allowed=listing(known),
        way_out=suggestion(target, known, otherwise="give the path of a YAML file or a shipped name"),
    )
    raise GraphError([problem])


def shipped() -> dict[str, Path]:
    """The dataflows that come with Headrace, by name: those of the package, or of its repository."""
    package = Path(headrace.__file__).parent
    for folder in (package / "configs", package.parent / "configs"):
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    return {}


def _read(text: str, file: str) -> tuple[dict[str, Any], Places]:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        places = Places(file=file, lines=lines_of(root))
        if not isinstance(root, yaml.MappingNode):
            wrong, way_out = (
                "the file holds no mapping",
                "write the graph's keys: name, steps, policies, nodes",
            )
            raise GraphError([Problem(path=(), place=file, wrong=wrong, way_out=way_out)])
        tree = OmegaConf.to_container(OmegaConf.create(text), resolve=False)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        wrong = f"not YAML: {error.problem}"
        raise GraphError(
            [Problem(path=(), place=file + line, wrong=wrong, way_out="mend the line")]
        ) from error
    assert isinstance(tree, dict)
    return {str(key): value for key, value in tree.items()}, places


def _resolve(tree: dict[str, Any], places: Places) -> dict[str, Any]:
    try:
        plain = OmegaConf.to_container(OmegaConf.create(tree), resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        path = tuple(re.findall(r"[^.\[\]]+", error.full_key or ""))
        wrong = f"cannot be resolved: {str(error.msg).splitlines()[0]}"
        problem = Problem(
            path=path, wrong=wrong, way_out="name an existing key as ${a.b}, or write the value"
        )
        raise GraphError(places.locate([problem])) from error
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


def _escaped(value: Any) -> Any:
    """Text that would be an interpolation, escaped so that it stays text."""
    if isinstance(value, dict):
        return {key: _escaped(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_escaped(member) for member in value]
    if isinstance(value, str):
        return re.sub(r"(\\*)\$\{", lambda match: match[1] * 2 + r"\${", value)
    return value
