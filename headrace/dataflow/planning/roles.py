"""What each kind of node does in its table: columns read and written, and how it takes rows."""

from dataclasses import dataclass, field
from typing import Final

from headrace.dataflow.language.spec import NodeKind, NodeSpec
from headrace.services.columns import CRITIC, PROMPT, REFERENCE, RESPONSE, REWARD, TEACHER
from headrace.services.options import TrainerOptions
from headrace.transferqueue.schema import Column, TaskKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The part that nodes of one kind play in a table."""

    reads: tuple[str, ...] = ()
    writes: tuple[Column, ...] = field(default=(), repr=False)
    task: TaskKind | None = "work"
    """How it leases rows; None: it only makes them."""
    needs_full_group: bool = False
    computes: bool = False
    """Whether it runs a model, so that it gets every core unless told otherwise."""


ROLES: Final[dict[NodeKind, Role]] = {
    "source": Role(writes=PROMPT, task=None),
    "rollout": Role(
        reads=("prompt_ids",), writes=RESPONSE, task="begin", needs_full_group=True, computes=True
    ),
    "reward": Role(reads=("example", "response_ids"), writes=REWARD),
    "reference": Role(reads=("prompt_ids", "response_ids"), writes=REFERENCE, computes=True),
    "teacher": Role(reads=("prompt_ids", "response_ids"), writes=TEACHER, computes=True),
    "critic": Role(reads=("prompt_ids", "response_ids"), writes=CRITIC, computes=True),
    "trainer": Role(
        reads=(
            *("prompt_ids", "response_ids", "logprobs", "versions", "loss_mask", "finish_reason"),
            *("retokenises", "reward", "reward_invalid", "reward_parts"),
        ),
        task="train",
        needs_full_group=True,
        computes=True,
    ),
}


def reads(node: NodeSpec) -> tuple[str, ...]:
    """Columns that a node reads, those its algorithm needs included."""
    extra = node.options.algorithm.needs() if isinstance(node.options, TrainerOptions) else ()
    return tuple(dict.fromkeys((*ROLES[node.kind].reads, *extra)))


def writes(node: NodeSpec) -> tuple[Column, ...]:
    return ROLES[node.kind].writes


def writers_of(column: str) -> tuple[NodeKind, ...]:
    """Kinds of node that write a column."""
    return tuple(kind for kind, role in ROLES.items() if column in {made.name for made in role.writes})
