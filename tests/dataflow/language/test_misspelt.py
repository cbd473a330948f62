"""A misspelt key, anywhere: one letter dropped, doubled or swapped with the next, and the key is named."""

from collections.abc import Iterator
from typing import Any, get_origin

from headrace.dataflow.language.parse import load
from headrace.dataflow.language.problems import Path, Problem
from headrace.dataflow.language.shipped import shipped
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.language.tree import from_tree, node_from_tree, policy_from_tree, to_tree
from headrace.dataflow.language.typed import type_below


def misspellings(word: str) -> set[str]:
    dropped = {word[:i] + word[i + 1 :] for i in range(len(word))}
    doubled = {word[:i] + word[i] + word[i:] for i in range(len(word))}
    swapped = {word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1)}
    return (dropped | doubled | swapped) - {word}


def keys_of(tree: dict[str, Any], seen: set[Any], kind: Any = GraphSpec, path: Path = ()) -> Iterator[Path]:
    """Every key that the graph does not choose itself, at every level, once for each class of options."""
    for key, value in tree.items():
        place = (kind, tree.get("kind"), key)
        if get_origin(kind) is not dict and place not in seen:
            seen.add(place)
            yield (*path, key)
        below = type_below(kind, tree, key)
        if isinstance(value, dict) and below is not Any:
            yield from keys_of(value, seen, below, (*path, key))


def renamed(tree: dict[str, Any], path: Path, name: str) -> tuple[dict[str, Any], list[str]]:
    """The graph with another name for the key at `path`, and the keys beside it."""
    key, *below = path
    if below:
        changed, beside = renamed(tree[key], tuple(below), name)
        return {**tree, key: changed}, beside
    beside = [each for each in tree if each != key]
    return {**{each: tree[each] for each in beside}, name: tree[key]}, beside


def problems_of(tree: dict[str, Any], path: Path) -> list[Problem]:
    """What is wrong with the graph: with the one node or policy where the path leads into one."""
    problems: list[Problem] = []
    if len(path) > 2 and path[0] in MAKE:
        MAKE[path[0]](tree[path[0]][path[1]], path[:2], problems)
        return problems
    return from_tree(tree)[1]


MAKE = {"nodes": node_from_tree, "policies": policy_from_tree}


def test_a_misspelt_key_names_the_one_that_was_meant() -> None:
    tried, seen = 0, set[Any]()
    for dataflow in shipped():
        tree = to_tree(load(dataflow).spec, resolved=True)
        for path in keys_of(tree, seen):
            for name in misspellings(path[-1]):
                misspelt, beside = renamed(tree, path, name)
                as_well = [key for key in beside if name in misspellings(key)]
                meant = [f"did you mean '{key}'?" for key in (path[-1], *as_well)]
                said = [p.way_out for p in problems_of(misspelt, path) if p.path == (*path[:-1], name)]
                assert name in beside or any(way_out in meant for way_out in said), (path, name, said)
                tried += 1
    assert tried > 3000


def test_a_misspelt_key_is_told_once_and_not_as_missing_too() -> None:
    tree = {
        "name": "copy",
        "stesp": 1,
        "polices": {"actor": {"model": "tiny-copier"}},
        "nodes": {
            "prompts": {"kind": "source", "dataset": "copy"},
            "answers": {"kind": "rollout", "inptus": ["prompts"], "polcy": "actor"},
        },
    }
    assert [(p.path[-1], p.way_out) for p in from_tree(tree)[1]] == [
        ("inptus", "did you mean 'inputs'?"),
        ("polcy", "did you mean 'policy'?"),
        ("stesp", "did you mean 'steps'?"),
        ("polices", "did you mean 'policies'?"),
    ]
