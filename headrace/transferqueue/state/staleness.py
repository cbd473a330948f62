"""How far generation may run ahead of training: the gate at a unit's start, the rule at its take.

Counts only; a unit is a group or a row, as the table says. Invariant kept by `Window`: for every step s,
the outstanding units due by s fit into the places left up to and including step s. The gate keeps it when
a unit begins, `may_take` when one is taken, `may_commit` when a step ends short; so no unit can ever miss
its deadline, and the earliest-due unit can always be taken.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction

INFINITE = math.inf


def units_ahead(staleness: float, units_per_step: int) -> float:
    """Units that may be begun beyond the step's own: ceil(eta * B), exact in decimal; may be inf."""
    if staleness == INFINITE:
        return INFINITE
    return math.ceil(Fraction(repr(float(staleness))) * units_per_step)


def may_begin(*, version: int, in_flight: int, ahead: float, units_per_step: int) -> bool:
    """The gate: `in_flight` = consumed + outstanding; `version` is the replica's confirmed one."""
    return in_flight < (version + 1) * units_per_step + ahead


def fits(due: Mapping[float, int], *, step: int, places: int, units_per_step: int) -> bool:
    """Whether the outstanding units, counted by deadline in `due`, all find a place in time.

    `places` are those left in step `step`; every later step has `units_per_step`.
    """
    if places < 0:
        return False
    total = 0
    for deadline in sorted(due):
        if deadline == INFINITE:
            break
        total += due[deadline]
        if total and total > places + (int(deadline) - step) * units_per_step:
            return False
    return True


class Window:
    """The counts of one gated table, between the first unit not consumed and the last one begun."""

    def __init__(self, *, units_per_step: int, staleness: float, first_step: int) -> None:
        self.units_per_step = units_per_step
        self.step = first_step
        self.taken = 0
        self.outstanding = 0
        self.due: Counter[float] = Counter()
        self.is_open = False
        """Nobody will consume any more: units begin without end, and none is counted."""
        self.set_staleness(staleness)

    def set_staleness(self, staleness: float) -> None:
        """Applies to units begun from now on; deadlines already given stand."""
        self.staleness = staleness
        self.ahead = units_ahead(staleness, self.units_per_step)
        self.slack: float = INFINITE if staleness == INFINITE else math.ceil(staleness)

    @property
    def consumed(self) -> int:
        return self.step * self.units_per_step + self.taken

    @property
    def places(self) -> int:
        """Units that the current step still lacks."""
        return self.units_per_step - self.taken

    def capacity(self, version: int) -> float:
        """Units that a replica at `version` may begin now."""
        if self.is_open:
            return INFINITE
        limit = (version + 1) * self.units_per_step + self.ahead
        return max(0, limit - self.consumed - self.outstanding)

    def may_begin(self, version: int) -> bool:
        return self.is_open or may_begin(
            version=version,
            in_flight=self.consumed + self.outstanding,
            ahead=self.ahead,
            units_per_step=self.units_per_step,
        )

    def begin(self, version: int) -> float:
        """Counts a unit as outstanding and returns its deadline."""
        deadline = version + self.slack
        self._add(deadline)
        return deadline

    def may_take(self, deadline: float) -> bool:
        """Whether a ready unit may go into the current step, leaving room for those due before it."""
        if self.places < 1:
            return False
        rest = self.due.copy()
        rest[deadline] -= 1
        return fits(rest, step=self.step, places=self.places - 1, units_per_step=self.units_per_step)

    def take(self, deadline: float, *, counted: bool) -> None:
        """`counted` is False for a unit that nobody began, which was never outstanding."""
        if counted:
            self._remove(deadline)
        self.taken += 1

    def untake(self, deadline: float, *, counted: bool) -> None:
        """A taken unit comes back and gives its place back."""
        self.taken -= 1
        if counted:
            self._add(deadline)

    def leave(self, deadline: float, *, taken: bool, counted: bool) -> None:
        """A unit that lost all its rows leaves the counts."""
        if taken:
            self.taken -= 1
        elif counted:
            self._remove(deadline)

    def may_commit(self, units: int) -> bool:
        """Whether ending the step now, with `units` of those taken, strands no unit due in it."""
        places = self.units_per_step - (self.taken - units)
        return fits(self.due, step=self.step + 1, places=places, units_per_step=self.units_per_step)

    def commit(self, units: int) -> None:
        """Ends the step; units taken beyond `units` count for the next one."""
        self.taken -= units
        self.step += 1

    def undo(self, deadlines: Iterable[float]) -> None:
        """Takes back the newest step; the units that it consumed are outstanding again."""
        self.step -= 1
        for deadline in deadlines:
            self._add(deadline)

    def open(self) -> None:
        """No step will follow: whatever is outstanding or taken is counted no more."""
        self.is_open = True
        self.taken = self.outstanding = 0
        self.due.clear()

    def close(self) -> None:
        """Steps follow again; what was begun meanwhile is counted by `admit`."""
        self.is_open = False

    def admit(self, deadline: float) -> bool:
        """Counts a unit that is begun already; False: it could not be consumed in time and is left out."""
        due = self.due + Counter({deadline: 1})
        if not fits(due, step=self.step, places=self.places, units_per_step=self.units_per_step):
            return False
        self._add(deadline)
        return True

    def _add(self, deadline: float) -> None:
        self.outstanding += 1
        self.due[deadline] += 1

    def _remove(self, deadline: float) -> None:
        self.outstanding -= 1
        self.due[deadline] -= 1
        if not self.due[deadline]:
            del self.due[deadline]
