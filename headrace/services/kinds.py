"""Every kind of node, declared once: its options, what serves it, what it reads and writes and how it leases.

Imports nothing heavy. A kind of a user's own is a class with the same declarations, named by its path in
`kind`; see `own`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache
from inspect import isasyncgenfunction
from typing import TYPE_CHECKING, Any, Final, get_args

from headrace.algorithms.by_path import Place, find
from headrace.services import columns
from headrace.services.options import (
    BranchOptions,
    CriticOptions,
    EvalOptions,
    JoinOptions,
    JudgeOptions,
    Placed,
    PythonVerifier,
    ReferenceOptions,
    RewardOptions,
    RolloutOptions,
    RowFilterOptions,
    SinkOptions,
    SourceOptions,
    TeacherOptions,
    TrainerOptions,
    TransformOptions,
)
from headrace.services.texts import read_by
from headrace.transferqueue.schema import Column, Dtype, TaskKind

if TYPE_CHECKING:
    from headrace.services.own import NodeType

Reads = Mapping[str, Dtype | None]
"""Columns by name, each with the type that is asked for; None: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What nodes of one kind are. The callables take a node's options."""

    options: type[Any]
    """Dataclass of the keys beside `kind`, `inputs` and `policy`."""
    serves: str
    """The service: `module:Class`, or `path/to/file.py:Class`; "" where no process runs it."""
    reads: Callable[[Any], Reads] = lambda _: {}
    """Columns without which it does not get a row."""
    takes: Callable[[Any], Reads] = lambda _: {}
    """Columns that it reads where they are written."""
    writes: Callable[[Any], tuple[Column, ...]] = lambda _: ()
    task: TaskKind | None = "work"
    """How it leases rows; None: it only makes them."""
    has_inputs: bool = True
    has_policy: bool = False
    """Whether it names a policy of its own, which it serves, trains or scores under."""
    needs_full_group: bool = False
    computes: bool = False
    """Whether it runs a model, so that it gets every core unless told otherwise."""
    starts_table: bool = False
    """Whether what it writes are the first columns of a table, which has its name."""
    is_single: str = ""
    """Why there is one replica of it; "": there may be many."""

    @property
    def is_service(self) -> bool:
        return bool(self.serves)


def _typed(*written: Column) -> Reads:
    return {column.name: column.dtype for column in written}


_PROMPT_IDS, _EXAMPLE = columns.PROMPT
_RESPONSE_IDS = columns.RESPONSE[0]
_ANSWERED = _typed(_PROMPT_IDS, _RESPONSE_IDS)


def _scored(options: RewardOptions | JudgeOptions) -> tuple[Column, ...]:
    return columns.reward(options.column)


def _reward_reads(options: RewardOptions) -> Reads:
    further = options.verifier.columns if isinstance(options.verifier, PythonVerifier) else ()
    return {**_typed(_EXAMPLE, _RESPONSE_IDS), **dict.fromkeys(further)}


def _trained(options: TrainerOptions) -> Reads:
    """A value model has no log-probabilities to compare with the rollout's."""
    usual = columns.VALUED if options.algorithm.trains_values else columns.TRAINED
    return {**_typed(*usual), **{name: columns.dtype(name) for name in options.algorithm.needs()}}


def _noted(options: TrainerOptions) -> Reads:
    """What a trainer only reports."""
    rest = [column for column in columns.TRAINED if column.name not in _trained(options)]
    return {**_typed(*columns.REWARD[1:]), **(_typed(*rest) if options.algorithm.trains_values else {})}


def _joined(options: JoinOptions) -> tuple[Column, ...]:
    return (Column(name=options.column, dtype="float64"),)


def _branched(options: BranchOptions) -> Reads:
    if options.function is None:
        return _ANSWERED
    return {**_typed(_PROMPT_IDS, _EXAMPLE, *columns.RESPONSE), **dict.fromkeys(options.columns)}


def _says_of_tokens(options: type[Placed], serves: str, written: tuple[Column, ...]) -> Kind:
    """A model of a policy of its own that writes a number for each token of an answer."""
    return Kind(
        options=options,
        serves=f"headrace.services.{serves}",
        reads=lambda _: _ANSWERED,
        writes=lambda _: written,
        has_policy=True,
        computes=True,
    )


KINDS: Final[dict[str, Kind]] = {
    "source": Kind(
        options=SourceOptions,
        serves="headrace.services.source.service:Source",
        writes=lambda _: columns.PROMPT,
        task=None,
        has_inputs=False,
        starts_table=True,
        is_single="it keeps the order of the data",
    ),
    "rollout": Kind(
        options=RolloutOptions,
        serves="headrace.services.rollout.service:Rollout",
        reads=lambda _: _typed(_PROMPT_IDS),
        writes=lambda _: columns.RESPONSE,
        task="begin",
        has_policy=True,
        needs_full_group=True,
        computes=True,
    ),
    "reward": Kind(
        options=RewardOptions,
        serves="headrace.services.reward.service:Reward",
        reads=_reward_reads,
        writes=_scored,
    ),
    "judge": Kind(
        options=JudgeOptions,
        serves="headrace.services.judge.service:Judge",
        reads=lambda _: _typed(_PROMPT_IDS, _EXAMPLE, _RESPONSE_IDS),
        writes=_scored,
    ),
    "reference": _says_of_tokens(ReferenceOptions, "reference:Reference", columns.REFERENCE),
    "teacher": _says_of_tokens(TeacherOptions, "teacher:Teacher", columns.TEACHER),
    "critic": _says_of_tokens(CriticOptions, "critic:Critic", columns.CRITIC),
    "filter": Kind(
        options=RowFilterOptions,
        serves="headrace.services.filter.service:Filter",
        reads=lambda options: read_by(options.columns),
    ),
    "transform": Kind(
        options=TransformOptions,
        serves="",
        reads=lambda options: dict.fromkeys(options.columns),
        writes=lambda options: tuple(Column(name=n, dtype=dtype) for n, dtype in options.writes.items()),
        task=None,
    ),
    "branch": Kind(
        options=BranchOptions,
        serves="headrace.services.branch.service:Branch",
        reads=_branched,
        takes=lambda _: _typed(*columns.BRANCHED[2:]),
        writes=lambda _: columns.BRANCHED,
        starts_table=True,
    ),
    "join": Kind(
        options=JoinOptions,
        serves="headrace.services.join.service:Join",
        reads=lambda options: {options.of.partition(".")[0]: None},
        writes=_joined,
        needs_full_group=True,
    ),
    "trainer": Kind(
        options=TrainerOptions,
        serves="headrace.services.trainer.service:Trainer",
        reads=_trained,
        takes=_noted,
        task="train",
        has_policy=True,
        needs_full_group=True,
        computes=True,
        is_single="it holds the optimizer's state",
    ),
    "eval": Kind(
        options=EvalOptions,
        serves="headrace.services.eval.service:Eval",
        task=None,
        has_inputs=False,
        has_policy=True,
        computes=True,
        is_single="it goes through the versions in order",
    ),
    "sink": Kind(
        options=SinkOptions,
        serves="headrace.services.sink.service:Sink",
        reads=lambda options: read_by([c for c in options.columns if c not in columns.NUMBERS]),
        is_single="it writes one file after another",
    ),
}


def kind_of(name: str) -> Kind:
    """The kind of that name, or of the user's class at that path.

    Raises ValueError where there is none, ImportError where the class's module does not import.
    """
    known = KINDS.get(name)
    if known is not None:
        return known
    if not is_path(name):
        raise ValueError(f"there is no kind of node {name!r}; there are {', '.join(KINDS)}")
    return _own(name)


def is_path(name: str) -> bool:
    return Place("class").holds(name)


@cache
def _own(path: str) -> Kind:
    cls: type[NodeType] = find(path, key="kind", what="Class")
    options = getattr(cls, "Options", Placed)
    if not (is_dataclass(options) and issubclass(options, Placed)):
        raise ValueError(f"{path}: its Options are {options!r}; they must be a dataclass that extends Placed")
    for method in ("setup", "process", "close"):
        if not callable(getattr(cls, method, None)):
            raise ValueError(f"{path} has no method {method}; see headrace.services.own.NodeType")
    if not isasyncgenfunction(cls.process):
        raise ValueError(f"{path}: its process yields nothing; write `async def` and `yield Output(...)`")
    capacity = getattr(cls, "capacity", 1)
    if not isinstance(capacity, int) or capacity < 1:
        raise ValueError(
            f"{path}: its capacity is {capacity!r}; it must be a whole number of at least 1, the rows that a "
            "replica may hold at once"
        )
    return Kind(
        options=options,
        serves=path,
        reads=lambda given: dict(_declared(cls, "reads", given, path)),
        writes=lambda given: tuple(
            Column(name=name, dtype=dtype) for name, dtype in _declared(cls, "writes", given, path).items()
        ),
        has_policy=bool(getattr(cls, "has_policy", False)),
        needs_full_group=bool(getattr(cls, "needs_full_group", False)),
        computes=bool(getattr(cls, "computes", False)),
    )


def _declared(cls: "type[NodeType]", what: str, options: Any, path: str) -> Mapping[str, Any]:
    """`reads` or `writes` of a user's class: a mapping from names to types, or a function of the options."""
    declared = getattr(cls, what, {})
    given = declared(options) if callable(declared) else declared
    if not isinstance(given, Mapping):
        raise ValueError(f"{path}: its {what} are {given!r}; they must be a mapping from columns to types")
    for column, dtype in given.items():
        if dtype not in get_args(Dtype) and (what == "writes" or dtype is not None):
            raise ValueError(
                f"{path}: its {what} give {column} the type {dtype!r}; types are {', '.join(get_args(Dtype))}"
            )
    return given
