"""Whatever a trainer writes, whoever looks: nobody's weights change while he looks at them."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.services.errors import WeightsGone
from headrace.services.weights import KEPT_VERSIONS, WeightStore


class Write(NamedTuple):
    """The next version, or one again after going back by so many."""

    back: int


class Read(NamedTuple):
    """Looks at a version that many before the newest, until `Forget`."""

    reader: int
    back: int


class Forget(NamedTuple):
    reader: int


class Keep(NamedTuple):
    """Has the newest version kept aside."""


READERS = st.integers(0, 1)
STEPS = st.lists(
    st.one_of(
        st.builds(Write, st.just(0)),
        st.builds(Write, st.just(0)),
        st.builds(Write, st.integers(0, 2)),
        st.builds(Read, READERS, st.integers(0, 2)),
        st.builds(Forget, READERS),
        st.builds(Keep),
    ),
    min_size=8,
    max_size=30,
)


class Run:
    """One store that is written, two readers, and a store aside; values are told apart by their count."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trainer, self.aside = WeightStore(folder / "w"), WeightStore(folder / "aside")
        self.readers = [WeightStore(folder / "w") for _ in range(2)]
        self.newest, self.writes = -1, 0
        self.published: dict[int, tuple[str, float]] = {}
        self.held: dict[int, tuple[torch.Tensor, float]] = {}
        self.kept: dict[int, tuple[str, float]] = {}

    def do(self, step: Write | Read | Forget | Keep) -> None:
        match step:
            case Write(back):
                self.newest = max(0, self.newest + 1 - back)
                self.writes += 1
                value = float(self.writes)
                checksum = self.trainer.write("actor", self.newest, {"w": torch.full((2000,), value)})
                self.published = {v: known for v, known in self.published.items() if v < self.newest}
                self.published[self.newest] = checksum, value
            case Read(reader, back) if self.newest - back in self.published:
                checksum, value = self.published[self.newest - back]
                try:
                    read = self.readers[reader].read("actor", self.newest - back, checksum)["w"]
                except WeightsGone:
                    assert back > 0
                else:
                    self.held[reader] = read, value
            case Forget(reader):
                self.held.pop(reader, None)
            case Keep() if self.published:
                self.trainer.keep("actor", self.newest, self.aside)
                self.kept[self.newest] = self.published[self.newest]

    def check(self) -> None:
        for read, value in self.held.values():
            assert read.eq(value).all()
        for version, (checksum, value) in self.kept.items():
            assert self.aside.read("actor", version, checksum)["w"].eq(value).all()
        assert len(list(self.folder.glob("w/actor/*"))) <= 2 * KEPT_VERSIONS + len(self.kept) + 2


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_what_somebody_looks_at_stays_as_it_was(steps: list[Write | Read | Forget | Keep]) -> None:
    with TemporaryDirectory() as folder:
        run = Run(Path(folder))
        for step in steps:
            run.do(step)
            run.check()
