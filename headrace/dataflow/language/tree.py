"""Between a graph's plain mapping and its spec: `from_tree`, and `to_tree`, its exact inverse.

Both writings of a graph pass here, so unknown keys, wrong types and numbers out of bounds are found in
one place and all at once.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from headrace.dataflow.language.convert import INVALID, build, convert, meant, misspelt_kind
from headrace.dataflow.language.fields import keys
from headrace.dataflow.language.problems import Path, Problem, listing, show, suggestion
from headrace.dataflow.language.spec import OPTIONS, GraphSpec, NodeKind, NodeSpec
from headrace.services.kinds import is_path, kind_of
from headrace.services.options import PolicyOptions

NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def from_tree(tree: Mapping[str, Any], *, also: Sequence[str] = ()) -> tuple[GraphSpec | None, list[Problem]]:
    """The spec that a plain mapping describes, or None and everything that is wrong with it.

    `also`: top-level keys that its writing has beside a graph's, for messages.
    """
    problems: list[Problem] = []
    sections = {
        "policies": dict(_section(tree, "policies", policy_from_tree, problems)),
        "nodes": dict(_section(tree, "nodes", node_from_tree, problems)),
    }
    spec = build(GraphSpec, {**tree, **sections}, (), problems, also=also, noun="a graph")
    if spec is not INVALID:
        problems.extend(_name_problems(spec))
    return (None, problems) if problems else (spec, [])


def policy_from_tree(tree: Any, path: Path, problems: list[Problem]) -> Any:
    return build(PolicyOptions, tree, path, problems, noun="a policy")


def node_from_tree(tree: Any, path: Path, problems: list[Problem]) -> Any:
    """A NodeSpec from a node's flat mapping, or INVALID."""
    if isinstance(tree, NodeSpec):
        return tree
    if not isinstance(tree, Mapping):
        wrong = f"got {show(tree)}"
        problems.append(
            Problem(
                path=path, wrong=wrong, allowed="a mapping", way_out="write {kind: ..., inputs: [...], ...}"
            )
        )
        return INVALID
    kind = tree.get("kind")
    if (misspelt := misspelt_kind(tree, OPTIONS.values(), path, also=("inputs", "policy"))) is not None:
        problems.append(misspelt)
        return INVALID
    if not is_kind(kind, path, problems):
        problems.extend([] if is_path(str(kind)) else [_unknown_kind(tree, path)])
        return INVALID
    assert isinstance(kind, str)
    also = node_keys(kind)
    cls = kind_of(kind).options
    options = build(cls, tree, path, problems, also=also, noun=f"a {kind}")
    misspelt = meant(tree, [*also, *keys(cls)]) - tree.keys()
    edges: dict[str, Any] = {
        name: INVALID if name in misspelt else _edge(tree, name, kind, path, problems)
        for name in also
        if name != "kind"
    }
    if options is INVALID or INVALID in edges.values():
        return INVALID
    return NodeSpec(kind=kind, options=options, **edges)


def node_keys(kind: NodeKind) -> tuple[str, ...]:
    """Keys of a node of this kind that are not among its options."""
    declared = kind_of(kind)
    return (
        "kind",
        *(["inputs"] if declared.has_inputs else []),
        *(["policy"] if declared.has_policy else []),
    )


def to_tree(spec: GraphSpec, *, resolved: bool = False) -> dict[str, Any]:
    """Plain values that `from_tree` turns into an equal spec; `resolved` writes defaults out too."""
    return {
        **_plain(spec, resolved, skip=("policies", "nodes")),
        "policies": {name: plain(policy, resolved=resolved) for name, policy in spec.policies.items()},
        "nodes": {name: plain(node, resolved=resolved) for name, node in spec.nodes.items()},
    }


def plain(value: Any, *, resolved: bool = False) -> Any:
    """A node, options or a setting as YAML has it: options with a kind and nothing else are its bare text."""
    if isinstance(value, NodeSpec):
        return _plain_node(value, resolved)
    if isinstance(value, tuple):
        return [plain(member, resolved=resolved) for member in value]
    if not dataclasses.is_dataclass(value):
        return value
    tree = _plain(value, resolved)
    return tree["kind"] if list(tree) == ["kind"] else tree


Make = Callable[[Any, Path, list[Problem]], Any]


def _section(
    tree: Mapping[str, Any], name: str, make: Make, problems: list[Problem]
) -> Iterator[tuple[str, Any]]:
    members = tree.get(name)
    if name not in tree and name in meant(tree, [*keys(GraphSpec)]):
        return
    if not isinstance(members, Mapping) or not members:
        example = (
            "actor: {model: tiny-copier}" if name == "policies" else "prompts: {kind: source, dataset: copy}"
        )
        problems.append(
            Problem(
                path=(name,),
                wrong=f"'{name}' is missing" if name not in tree else f"got {show(members)}",
                allowed="a mapping from names",
                way_out=f"write at least one, e.g. {example}",
            )
        )
        return
    for key, member in members.items():
        yield key, make(member, (name, str(key)), problems)


def _name_problems(spec: GraphSpec) -> Iterator[Problem]:
    """Names become those of folders, tasks and replicas."""
    places = [(("name",), spec.name)]
    places += [(("policies", name), name) for name in spec.policies]
    places += [(("nodes", name), name) for name in spec.nodes]
    for path, name in places:
        if not NAME.fullmatch(name):
            yield Problem(
                path=path,
                wrong=f"got the name '{name}'",
                allowed="a letter, then letters, digits, - and _",
                way_out="rename it",
            )


def is_kind(kind: Any, path: Path, problems: list[Problem]) -> bool:
    """Whether a kind is one of ours or a class of the user's; what is wrong with the latter is a problem."""
    if not isinstance(kind, str) or not is_path(kind):
        return isinstance(kind, str) and kind in OPTIONS
    try:
        kind_of(kind)
    except Exception as error:
        wrong, _, way_out = str(error).removeprefix("kind: ").partition("; ")
        problems.append(
            Problem(
                path=(*path, "kind"),
                wrong=wrong
                if isinstance(error, ValueError | ImportError)
                else f"{type(error).__name__}: {wrong}",
                way_out=way_out or "name a class with the methods of headrace.services.own.NodeType",
            )
        )
        return False
    return True


def _unknown_kind(tree: Mapping[str, Any], path: Path) -> Problem:
    if "kind" not in tree:
        wrong, way_out = "the key 'kind' is missing", "say what the node does"
    else:
        wrong = f"got {show(tree['kind'])}"
        way_out = suggestion(str(tree["kind"]), OPTIONS, otherwise="name one of these")
        path = (*path, "kind")
    return Problem(
        path=path, wrong=wrong, allowed=f"{listing(OPTIONS)}, or path/to/file.py:Class", way_out=way_out
    )


def _edge(tree: Mapping[str, Any], name: str, kind: NodeKind, path: Path, problems: list[Problem]) -> Any:
    key = keys(NodeSpec)[name]
    if tree.get(name) in (None, [], ()):
        problems.append(
            Problem(
                path=path,
                wrong=f"the key '{name}' is missing",
                way_out=f"add {name} to the {kind}: {key.help.rstrip('.')}",
            )
        )
        return INVALID
    return convert(tree[name], key.type, (*path, name), problems, help=key.help)


def _plain_node(node: NodeSpec, resolved: bool) -> dict[str, Any]:
    tree: dict[str, Any] = {"kind": node.kind}
    if node.inputs:
        tree["inputs"] = list(node.inputs)
    if node.policy is not None:
        tree["policy"] = node.policy
    return {**tree, **_plain(node.options, resolved)}


def _plain(value: Any, resolved: bool, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, key in keys(type(value)).items():
        member = getattr(value, name)
        if name in skip or not (resolved or key.required or name == "kind" or member != key.default):
            continue
        tree[name] = plain(member, resolved=resolved)
    return tree
