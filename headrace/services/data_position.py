"""Where a run stands in its data: the trainer saves it with each checkpoint, the source goes on from it."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from headrace.transferqueue import SAMPLE_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPosition:
    """The prompts that committed steps have used: all below `next`, and those of `done`, which lie above it.

    Groups finish out of order, so one number would either repeat or skip prompts on resume. A prompt with a
    sample in quarantine counts as used: a resume does not ask it again.
    """

    next: int = 0
    done: frozenset[int] = frozenset()

    def advance(self, groups: Iterable[int]) -> "DataPosition":
        """With the prompts at positions `groups` used too."""
        done = self.done | {int(group) for group in groups if group >= self.next}
        mark = self.next
        while mark in done:
            mark += 1
        return DataPosition(next=mark, done=frozenset(group for group in done if group > mark))

    def without(self, uids: Iterable[int]) -> "DataPosition":
        """With the prompts of these rows used too."""
        return self.advance({uid >> SAMPLE_BITS for uid in uids})

    def after(self, group: int) -> "DataPosition":
        """With every prompt up to the position `group` used too."""
        return self.advance(range(self.next, group + 1))

    def remaining(self, total: int | None) -> Iterator[int]:
        """Positions not used yet, ascending; up to `total`, or without end."""
        positions = count(self.next) if total is None else range(self.next, total)
        return (position for position in positions if position not in self.done)

    @property
    def end(self) -> int:
        """The first position above all that are used."""
        return max(self.done, default=self.next - 1) + 1

    @property
    def consumed(self) -> int:
        return self.next + len(self.done)

    def to_json(self) -> dict[str, Any]:
        return {"next": self.next, "done": sorted(self.done)}

    @classmethod
    def of_checkpoint(cls, checkpoint: Path) -> "DataPosition":
        """The position that a checkpoint's `state.json` holds among its values, where the trainer put it."""
        return cls.from_json(json.loads((checkpoint / "state.json").read_text())["values"]["data_position"])

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "DataPosition":
        return cls(next=int(value["next"]), done=frozenset(int(group) for group in value["done"]))
