"""A JSON Schema of a dataflow's YAML, made from the options classes: editors complete and check with it.

What it refuses, `headrace check` refuses; the reverse does not hold, since it sees one value at a time. A
file that counts no steps of its own, or includes others, is a part: there nothing is required and null takes
out.
"""

import dataclasses
import json
import math
from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from headrace.algorithms.bounds import Range
from headrace.algorithms.by_path import Place
from headrace.dataflow.language.fields import Key, keys
from headrace.dataflow.language.include import Include
from headrace.dataflow.language.spec import OPTIONS, GraphSpec, NodeSpec
from headrace.dataflow.language.tree import NAME, node_keys, plain
from headrace.services.options import PolicyOptions

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
INTERPOLATION: Final = r"\$\{"
"""What a text holds that stands for another value of the graph."""
CODE_PATH: Final = r".:[^:\s]+$"

_BOUNDS: Final = (
    ("ge", "minimum"),
    ("gt", "exclusiveMinimum"),
    ("le", "maximum"),
    ("lt", "exclusiveMaximum"),
)
_NULL: Final[Schema] = {"type": "null"}
_SCALARS: Final = {int: "integer", float: "number", bool: "boolean"}


def schema() -> Schema:
    """The schema of a file: of a whole dataflow, or of a part of one."""
    whole, part = _Writer(part=False), _Writer(part=True)
    graphs = whole.graph(), part.graph()
    is_whole = {"anyOf": [{"required": ["name"]}, {"required": ["steps"]}], "not": {"required": ["include"]}}
    return {
        "$schema": DIALECT,
        "title": "Headrace dataflow",
        "type": "object",
        "if": is_whole,
        "then": graphs[0],
        "else": graphs[1],
        "$defs": dict(sorted({**whole.made, **part.made}.items())),
    }


def schema_text() -> str:
    """The schema as a file holds it."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


class _Writer:
    """Writes types as schemas; what a class allows is written once, into `made`."""

    def __init__(self, *, part: bool) -> None:
        """`part`: nothing is required, and null takes out."""
        self.made: dict[str, Schema] = {}
        self._part = part

    def graph(self) -> Schema:
        policies, nodes = self._class(PolicyOptions), self._nodes()
        sections = {"policies": self._named(policies), "nodes": self._named(nodes)}
        own = {name: self._key(key) for name, key in keys(GraphSpec).items() if name not in sections}
        own["name"]["pattern"] = f"^{NAME.pattern}$|{INTERPOLATION}"
        include = {"type": "array", "items": {"anyOf": [{"type": "string"}, self._class(Include)]}}
        include["description"] = "Dataflows and fragments that this one lies over, by name or path."
        required = [name for name, key in keys(GraphSpec).items() if key.required] + list(sections)
        return self._object({"include": include, **own, **sections}, required)

    def _named(self, member: Schema) -> Schema:
        names = {"pattern": f"^{NAME.pattern}$"}
        made: Schema = {"type": "object", "propertyNames": names, "additionalProperties": member}
        return _or_null(made) if self._part else {**made, "minProperties": 1}

    def _nodes(self) -> Schema:
        edges = {name: self._key(key) for name, key in keys(NodeSpec).items() if name in ("inputs", "policy")}
        if not self._part:
            edges["inputs"]["minItems"] = 1
        for kind, options in OPTIONS.items():
            own = {"kind": {"const": kind}, **{name: edges[name] for name in node_keys(kind)[1:]}}
            own |= {name: self._key(key) for name, key in keys(options).items()}
            required = [*node_keys(kind), *(name for name, key in keys(options).items() if key.required)]
            self._define(kind, self._object(own, required, options))
        kinds: list[Schema] = [{"enum": list(OPTIONS)}, {"type": "string", "pattern": CODE_PATH}]
        made = self._of_kind({kind: self._ref(kind) for kind in OPTIONS}, {"anyOf": kinds})
        return self._define("node", _or_null(made) if self._part else made)

    def _key(self, key: Key) -> Schema:
        made = self._value(key.type)
        made = {**(_or_null(made) if self._part else made)}
        if key.help:
            made["description"] = key.help
        if not key.required and key.default is not None:
            made["default"] = _written(plain(key.default))
        return made

    def _value(self, kind: Any) -> Schema:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self._marked(self._value(arguments[0]), arguments[1])
        if origin in (Union, UnionType):
            return self._union(arguments)
        if origin is Literal:
            return _or_interpolation({"enum": list(arguments)})
        if origin is tuple:
            return self._list(arguments)
        if origin is dict:
            return {"type": "object", "additionalProperties": self._value(arguments[1])}
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            return self._tagged([kind]) if "kind" in keys(kind) else self._class(kind)
        if kind in _SCALARS:
            return {"type": [_SCALARS[kind], "string"], "pattern": INTERPOLATION}
        return {"type": "string"} if kind is str else {}

    def _marked(self, made: Schema, mark: Any) -> Schema:
        if isinstance(mark, Range):
            bounds = {name: getattr(mark, side) for side, name in _BOUNDS if getattr(mark, side) is not None}
            pattern = f"^(inf|infinity)$|{INTERPOLATION}" if mark.infinite else INTERPOLATION
            return {**made, **bounds, "pattern": pattern}
        if isinstance(mark, Place) and not mark.is_data:
            return {**made, "pattern": f"{CODE_PATH}|{INTERPOLATION}"}
        return made

    def _union(self, members: Iterable[Any]) -> Schema:
        options = [member for member in members if member is not NoneType]
        if len(options) == 1:
            made = self._value(options[0])
        elif all(map(dataclasses.is_dataclass, options)):
            made = self._tagged(options)
        else:
            made = {"anyOf": [*map(self._value, options)]}
        return _or_null(made) if NoneType in members else made

    def _tagged(self, classes: Iterable[type[Any]]) -> Schema:
        """A mapping with its kind, or the bare kind of a class whose every key has a default."""
        by_kind = {keys(cls)["kind"].default: cls for cls in classes}
        bare = [kind for kind, cls in by_kind.items() if not any(key.required for key in keys(cls).values())]
        mapping = self._of_kind({k: self._class(cls) for k, cls in by_kind.items()}, {"enum": list(by_kind)})
        return _or_interpolation(*([{"enum": bare}] if bare else []), mapping)

    def _of_kind(self, by_kind: dict[str, Schema], kinds: Schema) -> Schema:
        chosen: list[Schema] = [
            {
                "if": {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]},
                "then": made,
            }
            for kind, made in by_kind.items()
        ]
        if self._part:
            known = {key for made in by_kind.values() for key in self._made_at(made)["properties"]}
            names = {"propertyNames": {"enum": sorted(known)}}
            chosen.append({"if": {"not": {"required": ["kind"]}}, "then": names})
        return {
            "type": "object",
            "properties": {"kind": kinds},
            **({} if self._part else {"required": ["kind"]}),
            "allOf": chosen,
        }

    def _list(self, members: tuple[Any, ...]) -> Schema:
        if len(members) == 2 and members[1] is Ellipsis:
            return {"type": "array", "items": self._value(members[0])}
        size = len(members)
        return {
            "type": "array",
            "prefixItems": [*map(self._value, members)],
            "minItems": size,
            "maxItems": size,
        }

    def _class(self, cls: type[Any]) -> Schema:
        if self._name(cls.__name__) not in self.made:
            members = keys(cls).values()
            own = {
                key.name: {"const": key.default} if key.name == "kind" else self._key(key) for key in members
            }
            self._define(cls.__name__, self._object(own, [key.name for key in members if key.required], cls))
        return self._ref(cls.__name__)

    def _object(self, properties: dict[str, Schema], required: list[str], cls: type | None = None) -> Schema:
        made: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if cls is not None and cls.__doc__:
            made["description"] = cls.__doc__.strip().splitlines()[0]
        return made if self._part or not required else {**made, "required": required}

    def _define(self, name: str, made: Schema) -> Schema:
        self.made[self._name(name)] = made
        return self._ref(name)

    def _name(self, name: str) -> str:
        return f"{name}.part" if self._part else name

    def _ref(self, name: str) -> Schema:
        return {"$ref": f"#/$defs/{self._name(name)}"}

    def _made_at(self, ref: Schema) -> Schema:
        return self.made[ref["$ref"].removeprefix("#/$defs/")]


def _or_null(made: Schema) -> Schema:
    if "type" in made:
        types = made["type"] if isinstance(made["type"], list) else [made["type"]]
        return {**made, "type": [*dict.fromkeys([*types, "null"])]}
    either = made["anyOf"] if set(made) == {"anyOf"} else [made]
    return {"anyOf": [*either, *([] if _NULL in either else [_NULL])]} if made else made


def _or_interpolation(*made: Schema) -> Schema:
    return {"anyOf": [*made, {"type": "string", "pattern": INTERPOLATION}]}


def _written(value: Any) -> Any:
    return "inf" if value == math.inf else value
