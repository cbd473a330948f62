"""Values set by a dotted key, of the command line (`a.b=value`) or of an include, put into a plain mapping.

The first key is a top-level key, `nodes`, `policies`, the bare name of a node or policy, or a kind of node
that one node alone has. Below a node, a key that it does not have is its policy's: `trainer.optimizer.lr`.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from headrace.dataflow.language.fields import keys
from headrace.dataflow.language.layer import Layer, extendable, without
from headrace.dataflow.language.problems import Path, Problem, listing, nearest, suggestion
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.language.tree import is_kind, node_keys
from headrace.dataflow.language.typed import may_be_null, type_below
from headrace.services.kinds import kind_of
from headrace.services.options import PolicyOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One value to set."""

    key: str
    """Dotted, as written."""
    value: Any
    """None unsets a key that may not be null, and takes a node or policy out."""
    place: str
    """Where it was written, for messages."""
    path: Path = ()
    """The same as a path of its file; empty for the command line."""


def settings_of(overrides: Iterable[str], problems: list[Problem]) -> Iterator[Setting]:
    """The settings that arguments of the command line are."""
    for override in overrides:
        place = f"override {override}"
        key, equals, text = override.partition("=")
        if not equals or not key.strip():
            wrong, way_out = "it has no key and value", "write key=value, e.g. steps=20"
            problems.append(Problem(path=(), place=place, wrong=wrong, way_out=way_out))
            continue
        try:
            yield Setting(key=key.strip(), value=_value(text), place=place)
        except (yaml.YAMLError, OmegaConfBaseException) as error:
            wrong = f"the value is not YAML: {' '.join(str(error).split())}"
            problems.append(Problem(path=(), place=place, wrong=wrong, way_out="quote it"))


def put(
    layer: Layer, settings: Iterable[Setting], problems: list[Problem]
) -> tuple[Layer, dict[Path, Setting]]:
    """`layer` with the values set, and which paths each one set, mappings made on the way included."""
    tree = copy.deepcopy(layer.tree)
    placed: dict[Path, Setting] = {}
    for setting in settings:
        path = _full_path(tuple(setting.key.split(".")), tree, setting, problems)
        if path:
            placed |= dict.fromkeys(_set(tree, path, setting, problems), setting)
    lines = without(layer.lines, placed.keys())
    kept = {path: layer.lines[path] for path in placed if path in layer.lines}
    return replace(layer, tree=tree, lines=lines | kept), placed


def _value(text: str) -> Any:
    config = OmegaConf.from_dotlist([f"value={text}"])
    tree = OmegaConf.to_container(config, resolve=False)
    assert isinstance(tree, dict)
    return tree["value"]


def _full_path(path: Path, tree: Mapping[str, Any], setting: Setting, problems: list[Problem]) -> Path | None:
    first = path[0]
    if first in keys(GraphSpec):
        return path
    nodes, policies = members(tree, "nodes"), members(tree, "policies")
    of_kind = (
        []
        if written_kind(nodes.get(first)) == first
        else [n for n in nodes if written_kind(nodes[n]) == first]
    )
    homes = [*(("nodes", name) for name in nodes if name == first or name in of_kind)]
    homes += [("policies", name) for name in policies if name == first]
    if len(homes) == 1:
        return _owner(homes[0], path[1:], nodes, policies)
    if homes:
        roles = [*(["a node"] if first in nodes else []), *(["a policy"] if first in policies else [])]
        roles += [f"the kind of {listing(of_kind)}"] if of_kind else []
        spellings = [".".join((*home, *path[1:])) for home in homes]
        problems.append(
            _problem(setting, f"'{first}' is {' and '.join(roles)}", f"write {' or '.join(spellings)}")
        )
        return None
    known = dict.fromkeys(
        [*keys(GraphSpec), *nodes, *policies, *filter(None, map(written_kind, nodes.values()))]
    )
    wrong = f"there is no key, node, policy or kind of node '{first}'"
    way_out = suggestion(first, known, otherwise="name one of these")
    problems.append(_problem(setting, wrong, way_out, allowed=listing(known)))
    return None


def _owner(home: Path, rest: Path, nodes: Mapping[str, Any], policies: Mapping[str, Any]) -> Path:
    """The node, or its policy where the key is the policy's or meant to be."""
    node = nodes.get(home[1]) if home[0] == "nodes" else None
    kind = written_kind(node)
    if not rest or kind is None or not isinstance(node, Mapping) or not is_kind(kind, (), []):
        return (*home, *rest)
    if node.get("policy") not in policies:
        return (*home, *rest)
    own = {*node_keys(kind), *keys(kind_of(kind).options)}
    meant = rest[0] if rest[0] in own else nearest(rest[0], [*own, *keys(PolicyOptions)])
    return (*home, *rest) if meant is None or meant in own else ("policies", node["policy"], *rest)


def members(tree: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The nodes or policies that a plain mapping holds, by name."""
    found = tree.get(section)
    return {str(name): member for name, member in found.items()} if isinstance(found, Mapping) else {}


def written_kind(node: Any) -> str | None:
    """The kind that a node's plain value names; None where it names none."""
    kind = node.get("kind") if isinstance(node, Mapping) else None
    return kind if isinstance(kind, str) else None


def _set(tree: dict[str, Any], path: Path, setting: Setting, problems: list[Problem]) -> list[Path]:
    """The paths that are the setting's from now on."""
    at, kind = tree, GraphSpec
    made: list[Path] = []
    for depth, key in enumerate(path[:-1], start=1):
        kind = type_below(kind, at, key)
        if (member := extendable(at.get(key))) is None:
            whole = ".".join(path[:depth])
            problems.append(_problem(setting, f"{whole} has no keys", f"set {whole} whole"))
            return []
        made += [path[:depth]] if at.get(key) is None else []
        at[key] = member
        at = member
    if setting.value is None and not may_be_null(type_below(kind, at, path[-1])):
        at.pop(path[-1], None)
    else:
        at[path[-1]] = setting.value
    return [*made, path]


def _problem(setting: Setting, wrong: str, way_out: str, *, allowed: str = "") -> Problem:
    return Problem(path=setting.path, place=setting.place, wrong=wrong, way_out=way_out, allowed=allowed)
