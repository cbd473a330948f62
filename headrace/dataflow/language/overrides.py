"""Overrides of the command line, `a.b=value`, put into a graph's plain mapping before it is typed.

The first key is a top-level key, `nodes`, `policies`, or the bare name of a node or policy.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from omegaconf import OmegaConf

from headrace.dataflow.language.fields import keys
from headrace.dataflow.language.problems import Path, Problem, listing, suggestion
from headrace.dataflow.language.spec import GraphSpec


def apply(tree: dict[str, Any], overrides: Iterable[str], problems: list[Problem]) -> dict[Path, str]:
    """Writes the overrides into `tree`; returns which path each one set."""
    placed: dict[Path, str] = {}
    for override in overrides:
        written, equals, text = override.partition("=")
        if not equals or not written.strip():
            problems.append(_problem(override, "it has no key and value", "write key=value, e.g. steps=20"))
            continue
        try:
            value = _value(text)
        except yaml.YAMLError as error:
            problems.append(_problem(override, f"the value is not YAML: {error}", "quote it"))
            continue
        path = _full_path(tuple(written.strip().split(".")), tree, override, problems)
        if path and _set(tree, path, value, override, problems):
            placed[path] = override
    return placed


def _value(text: str) -> Any:
    config = OmegaConf.from_dotlist([f"value={text}"])
    tree = OmegaConf.to_container(config, resolve=False)
    assert isinstance(tree, dict)
    return tree["value"]


def _full_path(path: Path, tree: Mapping[str, Any], override: str, problems: list[Problem]) -> Path | None:
    first = path[0]
    names = {section: _names(tree, section) for section in ("nodes", "policies")}
    if first in keys(GraphSpec):
        return path
    homes = [section for section, members in names.items() if first in members]
    if len(homes) == 1:
        return (homes[0], *path)
    if homes:
        problems.append(
            _problem(
                override,
                f"'{first}' is a node and a policy",
                f"write nodes.{'.'.join(path)} or policies.{'.'.join(path)}",
            )
        )
        return None
    known = [*keys(GraphSpec), *names["nodes"], *names["policies"]]
    problems.append(
        _problem(
            override,
            f"there is no key, node or policy '{first}'",
            suggestion(first, known, otherwise="name one of these"),
            allowed=listing(dict.fromkeys(known)),
        )
    )
    return None


def _names(tree: Mapping[str, Any], section: str) -> tuple[str, ...]:
    members = tree.get(section)
    return tuple(map(str, members)) if isinstance(members, Mapping) else ()


def _set(tree: dict[str, Any], path: Path, value: Any, override: str, problems: list[Problem]) -> bool:
    at: dict[str, Any] = tree
    for depth, key in enumerate(path[:-1], start=1):
        member: Any = at.get(key)
        if member is None:
            member = {}
        elif isinstance(member, str):
            member = {"kind": member}
        if not isinstance(member, dict):
            problems.append(
                _problem(
                    override, f"{'.'.join(path[:depth])} has no keys", f"set {'.'.join(path[:depth])} whole"
                )
            )
            return False
        at[key] = member
        at = member
    at[path[-1]] = value
    return True


def _problem(override: str, wrong: str, way_out: str, *, allowed: str = "") -> Problem:
    return Problem(path=(), place=f"override {override}", wrong=wrong, way_out=way_out, allowed=allowed)
