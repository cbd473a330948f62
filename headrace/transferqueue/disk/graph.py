"""Objects of the state machine as plain data and back: what a snapshot of the queue is.

Every object reachable from the roots is written once, as its class and its fields, and refers to others by
number; so what comes back is the same graph, heaps and insertion orders included. Only classes defined in
`MODULES` are written or made, and none of their code runs.
"""

import gc
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import MappingProxyType, MethodType
from typing import Any

import msgpack
import numpy as np

from headrace.transferqueue.errors import JournalError
from headrace.transferqueue.state.records import NOTHING

_HOME = "headrace.transferqueue."
MODULES = (
    *("sampling", "schema", "server.hub", "server.nodes"),
    *(
        "state.flow",
        "state.history",
        "state.leases",
        "state.ledger",
        "state.publications",
        "state.records",
        "state.shelf",
        "state.staleness",
        "state.table",
    ),
    *(
        "state.samplers.arrivals",
        "state.samplers.balanced",
        "state.samplers.base",
        "state.samplers.keys",
        "state.samplers.ordered",
        "state.samplers.replay",
    ),
)
"""Where the classes of a state may be defined, below this package."""

_WORD = 1 << 63
_PLAIN = frozenset((type(None), bool, float, str, bytes))
_SEQUENCES: dict[type, str] = {list: "list", tuple: "tuple", set: "set", deque: "deque"}
_MAPPINGS: dict[type, str] = {dict: "dict", Counter: "counter"}
_MAKE: dict[str, Callable[[Any], Any]] = {
    **{name: kind for kind, name in _SEQUENCES.items()},
    **{name: kind for kind, name in _MAPPINGS.items()},
}


@contextmanager
def _without_collection() -> Iterator[None]:
    """Millions of small objects are made, none of them garbage: looking for it doubles the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@_without_collection()
def dump(roots: dict[str, Any]) -> bytes:
    """The graph below `roots`; JournalError on an object of a class that is not of the state machine."""
    return _Writer().write(roots)


@_without_collection()
def load(data: bytes) -> dict[str, Any]:
    """What `dump` wrote; JournalError where it is not that."""
    try:
        roots, kinds, objects = msgpack.unpackb(data, strict_map_key=False, use_list=True)
        return _Reader(kinds, objects).read(roots)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise JournalError(f"the snapshot does not fit this version of the queue: {error!r}") from error


def fields_of(kind: type) -> list[str]:
    """Names of a class's slots, in the order of definition."""
    return [name for base in reversed(kind.__mro__) for name in getattr(base, "__slots__", ())]


class _Writer:
    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._objects: list[Any] = []
        self._slots: dict[type, tuple[str, list[str]]] = {}
        self._kinds: dict[tuple[str, ...], int] = {}

    def write(self, roots: dict[str, Any]) -> bytes:
        top = self._value(roots)
        written = []
        for each in self._objects:
            name, slots = self._slots_of(type(each))
            own = getattr(each, "__dict__", {})
            kind = self._kinds.setdefault((name, *slots, *own), len(self._kinds))
            row = [kind]
            for value in (*[getattr(each, slot) for slot in slots], *own.values()):
                plain = type(value) in _PLAIN or (type(value) is int and -_WORD <= value < _WORD)
                row.append(value if plain else self._value(value))
            written.append(row)
        packed = msgpack.packb([top, list(self._kinds), written])
        assert packed is not None
        return packed

    def _value(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is int:
            return value if -_WORD <= value < _WORD else ["int", str(value)]
        if kind in _SEQUENCES:
            return [_SEQUENCES[kind], *(self._value(item) for item in value)]
        if kind in _MAPPINGS:
            return [_MAPPINGS[kind], *(self._value(part) for item in value.items() for part in item)]
        if kind is MappingProxyType and not value:
            return ["nothing"]
        if kind is np.ndarray:
            return ["array", value.dtype.str, value.tobytes()]
        if kind is MethodType:
            return ["method", self._number(value.__self__), value.__name__]
        return ["at", self._number(value)]

    def _number(self, each: Any) -> int:
        number = self._numbers.get(id(each))
        if number is None:
            number = self._numbers[id(each)] = len(self._objects)
            self._objects.append(each)
        return number

    def _slots_of(self, kind: type) -> tuple[str, list[str]]:
        if kind not in self._slots:
            module = kind.__module__.removeprefix(_HOME)
            if kind.__module__ == module or module not in MODULES:
                raise JournalError(f"{kind.__module__}.{kind.__name__} cannot be part of a snapshot")
            self._slots[kind] = f"{module}:{kind.__name__}", fields_of(kind)
        return self._slots[kind]


class _Reader:
    def __init__(self, kinds: list[list[str]], objects: list[Any]) -> None:
        self._written = objects
        self._fields = [fields for _, *fields in kinds]
        classes = [self._class(name) for name, *_ in kinds]
        self._objects = [classes[kind].__new__(classes[kind]) for kind, *_ in objects]

    def read(self, roots: Any) -> dict[str, Any]:
        put = object.__setattr__
        for each, (kind, *values) in zip(self._objects, self._written, strict=True):
            for name, value in zip(self._fields[kind], values, strict=True):
                put(each, name, self._value(value) if type(value) is list else value)
        return self._value(roots)

    def _class(self, name: str) -> Any:
        module, _, kind = name.partition(":")
        if module not in MODULES:
            raise JournalError(f"a snapshot names {name!r}; classes come from {', '.join(MODULES)} alone")
        return getattr(import_module(_HOME + module), kind)

    def _value(self, value: Any) -> Any:
        if type(value) is not list:
            return value
        tag, *parts = value
        if tag == "at":
            return self._objects[parts[0]]
        if tag in ("dict", "counter"):
            items = [self._value(part) for part in parts]
            return _MAKE[tag](dict(zip(items[::2], items[1::2], strict=True)))
        if tag == "nothing":
            return NOTHING
        if tag == "array":
            return np.frombuffer(parts[1], parts[0]).copy()
        if tag == "method":
            return getattr(self._objects[parts[0]], parts[1])
        if tag == "int":
            return int(parts[0])
        return _MAKE[tag](self._value(part) for part in parts)
