from dataclasses import dataclass, field

import pytest

from headrace.services.trainer.backend import NotSaved
from headrace.services.trainer.ranks.group import ALONE, Alone
from headrace.services.trainer.ranks.saving import Saving
from headrace.services.trainer.tally import Tally


@dataclass(frozen=True, slots=True)
class BesideAFullDisk(Alone):
    """What rank 1 of two meets, of which rank 0 has a full disk."""

    rank: int = 1
    told: dict[str, float] = field(default_factory=lambda: {"rank 0: OSError: No space left on device": 1.0})

    def together(self, tally: Tally) -> Tally:
        return Tally(sums={**tally.sums, **self.told})


def test_what_all_wrote_is_saved() -> None:
    saving = Saving()
    with saving.here():
        pass
    saving.settle(ALONE)


def test_every_rank_says_what_any_of_them_could_not_write() -> None:
    saving = Saving()
    with saving.here():
        raise PermissionError(13, "Permission denied")
    with pytest.raises(
        NotSaved,
        match=r"could not be written; rank 0: OSError: No space .*; rank 1: PermissionError: \[Errno 13\]",
    ) as raised:
        saving.settle(BesideAFullDisk())
    assert isinstance(raised.value.__cause__, PermissionError)
    with pytest.raises(NotSaved, match=r"written; rank 0: OSError: No space left on device$"):
        Saving().settle(BesideAFullDisk())


def test_what_is_no_fault_of_a_file_travels_at_once() -> None:
    with pytest.raises(ZeroDivisionError), Saving().here():
        raise ZeroDivisionError
