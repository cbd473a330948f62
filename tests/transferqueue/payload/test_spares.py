"""Segments that are written again: who may look at them is known, and what they take is bounded."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headrace.transferqueue import PayloadError
from headrace.transferqueue.payload.custody import Custody
from headrace.transferqueue.payload.segments import Reference, SegmentReader
from headrace.transferqueue.payload.spares import Spares
from headrace.transferqueue.payload.writing import SegmentWriter
from headrace.transferqueue.state.records import Block

KIB = 1024


def batch(value: int, size: int = 8 * KIB) -> pa.RecordBatch:
    return pa.record_batch([pa.array(np.full(size, value, np.int8))], ["x"])


def opened(directory: Path) -> list[str]:
    """Files under a directory to which this process has a descriptor."""
    links = [Path(entry) for entry in Path("/proc/self/fd").iterdir()]
    paths = [os.readlink(link) for link in links if os.path.lexists(link)]
    return [path for path in paths if path.startswith(str(directory))]


class Depot:
    """A directory with its custody and a writer whose segments hold one block each."""

    def __init__(self, directory: Path, *, spare_bytes: int = 1 << 20) -> None:
        self.directory = directory
        self.custody = Custody(directory, spares=Spares(directory, spare_bytes=spare_bytes))
        self.writer = SegmentWriter(directory, "aa", segment_bytes=KIB, reuse=True)

    def put(self, value: int, size: int = 8 * KIB) -> tuple[Reference, Block]:
        place = self.writer.append(batch(value, size))
        return place, self.custody.admit("aa", place.segment, place.offset, place.length)

    def files(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())

    def inode(self, place: Reference) -> int:
        return (self.directory / place.segment).stat().st_ino


def test_a_file_that_nobody_needs_is_written_again_under_another_name(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    first, block = depot.put(1)
    inodes = {depot.inode(first)}
    depot.custody.free(block)
    for value in range(100):
        place, block = depot.put(value)
        inodes.add(depot.inode(place))
        assert len(depot.files()) == 2
        depot.custody.free(block)
    assert len(inodes) == 2
    assert depot.files() == ["aa-000099.spare", "aa-000100.arrows"]


def test_a_file_rests_until_every_reader_has_let_go_of_every_answer(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    first, block = depot.put(1)
    depot.custody.hand("r", [first.segment])
    depot.custody.hand("r", [first.segment])
    depot.custody.hand("s", [first.segment])
    depot.custody.free(block)
    depot.put(2)
    for reader, count in (("r", 1), ("s", 1), ("s", 5), ("t", 1)):
        depot.custody.let_go(reader, {first.segment: count})
        assert depot.files() == ["aa-000000.arrows", "aa-000001.arrows"]
    depot.custody.let_go("r", {first.segment: 1})
    assert depot.files() == ["aa-000000.spare", "aa-000001.arrows"]


def test_a_report_that_is_none_changes_nothing(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    first, _ = depot.put(1)
    depot.custody.hand("r", [first.segment])
    for counts in ({first.segment: 0}, {first.segment: "1"}, {1: 1}, {first.segment: 1, "b": -1}):
        with pytest.raises(PayloadError, match="a segment and a count above 0 are due"):
            depot.custody.let_go("r", counts)
    depot.put(2)
    assert depot.files() == ["aa-000000.arrows", "aa-000001.arrows"]


def test_a_file_that_a_reader_took_with_it_is_never_written_again(tmp_path: Path) -> None:
    """The reader was given up while it may look at a segment in use, and at one at rest."""
    depot = Depot(tmp_path)
    places, blocks = zip(*[depot.put(value) for value in range(3)], strict=True)
    depot.custody.hand("r", [place.segment for place in places])
    depot.custody.free(blocks[0])
    depot.custody.leave("r")
    assert depot.files() == ["aa-000001.arrows", "aa-000002.arrows"]
    depot.custody.free(blocks[1])
    assert depot.files() == ["aa-000002.arrows"]
    depot.custody.let_go("r", {places[2].segment: 1})
    depot.custody.free(blocks[2])
    depot.put(3)
    assert depot.files() == ["aa-000003.arrows"]


def test_an_owner_that_leaves_takes_its_idle_files_with_it(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    places, blocks = zip(*[depot.put(value) for value in range(4)], strict=True)
    depot.custody.hand("r", [places[1].segment, places[2].segment])
    for block in blocks[:2]:
        depot.custody.free(block)
    assert depot.files() == ["aa-000000.spare", *(place.segment for place in places[1:])]
    depot.custody.leave("aa")
    depot.custody.sweep()
    assert depot.files() == ["aa-000002.arrows", "aa-000003.arrows"]
    depot.custody.free(blocks[2])
    depot.custody.free(blocks[3])
    depot.custody.sweep()
    assert depot.files() == []


def test_idle_files_are_bounded_and_those_at_rest_go_first(tmp_path: Path) -> None:
    """Each takes 12 KiB, and 40 KiB may be idle."""
    depot = Depot(tmp_path, spare_bytes=40 * KIB)
    places, blocks = zip(*[depot.put(value) for value in range(6)], strict=True)
    depot.custody.hand("dead", [places[1].segment, places[2].segment])
    for block in blocks[:5]:
        depot.custody.free(block)
    assert depot.files() == [
        "aa-000000.spare",
        "aa-000003.spare",
        "aa-000004.spare",
        "aa-000005.arrows",
    ]


def test_one_file_may_be_idle_whatever_it_takes(tmp_path: Path) -> None:
    depot = Depot(tmp_path, spare_bytes=0)
    depot.custody.free(depot.put(1, 100 * KIB)[1])
    depot.put(2, 100 * KIB)
    assert depot.files() == ["aa-000000.spare", "aa-000001.arrows"]


def test_a_larger_block_makes_a_spare_larger_and_its_reader_maps_it_anew(tmp_path: Path) -> None:
    depot, reader = Depot(tmp_path), SegmentReader(tmp_path)
    first, block = depot.put(1)
    assert reader.read(first).column("x").to_pylist() == [1] * 8 * KIB
    inode = depot.inode(first)
    depot.custody.free(block)
    depot.put(2)
    place, _ = depot.put(3, 64 * KIB)
    assert depot.inode(place) == inode
    assert reader.read(place).column("x").to_pylist() == [3] * 64 * KIB
    reader.close()


def test_a_spare_that_is_far_too_large_gives_memory_back(tmp_path: Path) -> None:
    depot, reader = Depot(tmp_path), SegmentReader(tmp_path)
    first, block = depot.put(1, 100 * KIB)
    assert reader.read(first).num_rows == 100 * KIB
    inode = depot.inode(first)
    depot.custody.free(block)
    depot.put(2)
    place, _ = depot.put(3)
    status = (tmp_path / place.segment).stat()
    assert (status.st_ino, status.st_size, status.st_blocks) == (inode, place.length, 24)
    assert reader.read(place).column("x").to_pylist() == [3] * 8 * KIB
    reader.close()


def test_the_smallest_spare_that_has_room_is_taken(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    sizes = (64 * KIB, 8 * KIB, 32 * KIB)
    places, blocks = zip(*[depot.put(value, size) for value, size in enumerate(sizes)], strict=True)
    inodes = [depot.inode(place) for place in places]
    depot.put(9)
    for block in blocks:
        depot.custody.free(block)
    assert [depot.inode(depot.put(0, size)[0]) for size in (20 * KIB, 20 * KIB, 8 * KIB)] == [
        inodes[2],
        inodes[0],
        inodes[1],
    ]


def test_a_number_is_used_once_even_where_its_file_could_not_be_made(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    (tmp_path / "aa-000000.arrows").touch()
    with pytest.raises(PayloadError, match="File exists"):
        depot.writer.append(batch(1))
    assert depot.put(1)[0].segment == "aa-000001.arrows"


def test_a_spare_that_was_removed_meanwhile_is_done_without(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    depot.custody.free(depot.put(1)[1])
    depot.put(2)
    (tmp_path / "aa-000000.spare").unlink()
    place, _ = depot.put(3)
    assert SegmentReader(tmp_path).read(place).column("x")[0].as_py() == 3


def test_what_was_unlinked_is_let_go_by_its_writer(tmp_path: Path) -> None:
    depot = Depot(tmp_path, spare_bytes=0)
    blocks = [depot.put(value)[1] for value in range(4)]
    for block in blocks:
        depot.custody.free(block)
    assert depot.files() == ["aa-000002.spare", "aa-000003.arrows"]
    depot.put(4)
    assert not [path for path in opened(tmp_path) if path.endswith("(deleted)")]
    assert {Path(path).name for path in opened(tmp_path)} == set(depot.files())


def test_a_file_that_is_needed_cannot_be_another_segment(tmp_path: Path) -> None:
    """By its writer's mistake: renamed or linked while a row needs it, or while somebody may look."""
    depot = Depot(tmp_path)
    first, block = depot.put(1)
    os.link(tmp_path / first.segment, tmp_path / "aa-000001.arrows")
    with pytest.raises(PayloadError, match=r"is needed still, as \['aa-000000.arrows'\]"):
        depot.custody.admit("aa", "aa-000001.arrows", 0, 64)
    os.unlink(tmp_path / "aa-000001.arrows")
    depot.custody.hand("r", [first.segment])
    depot.put(2)
    depot.custody.free(block)
    os.rename(tmp_path / first.segment, tmp_path / "aa-000002.arrows")
    with pytest.raises(PayloadError, match="is needed still, as another"):
        depot.custody.admit("aa", "aa-000002.arrows", 0, 64)
    with pytest.raises(PayloadError, match="is none of client 'bb'"):
        depot.custody.admit("bb", "aa-000001.arrows", 0, 64)
