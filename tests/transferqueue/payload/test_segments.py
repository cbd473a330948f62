import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headrace.transferqueue import PayloadError
from headrace.transferqueue.payload.custody import Custody
from headrace.transferqueue.payload.gather import Piece, gather
from headrace.transferqueue.payload.segments import Reference, SegmentReader, segment_name
from headrace.transferqueue.payload.writing import SegmentWriter


def batch(values: list[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values)], ["x"])


def piece(values: list[int], positions: list[int], indices: list[int]) -> Piece:
    return Piece(batch=batch(values), positions=np.array(positions), indices=np.array(indices))


def test_a_block_is_read_as_a_view_of_the_file(tmp_path: Path) -> None:
    writer, reader = SegmentWriter(tmp_path, "aa"), SegmentReader(tmp_path)
    first, second = writer.append(batch([1, 2])), writer.append(batch([3]))
    assert (first.offset, second.offset % 64) == (0, 0)
    assert reader.read(second).column("x").to_pylist() == [3]
    before = pa.total_allocated_bytes()
    column = reader.read(first).column("x")
    assert pa.total_allocated_bytes() == before
    assert not column.to_numpy().flags.writeable


def test_a_full_segment_is_followed_by_another_and_a_large_block_gets_its_own(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "aa", segment_bytes=1024)
    places = [writer.append(batch(list(range(size)))) for size in (10, 10, 1000, 10)]
    assert [place.segment[-8] for place in places] == ["0", "0", "1", "2"]
    assert places[2].length > 8000 > places[0].length


def test_a_block_that_nobody_was_told_of_can_be_undone(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "aa")
    writer.append(batch([1]))
    refused = writer.append(batch([2]))
    writer.undo(refused)
    assert writer.append(batch([3])) == refused


def test_a_view_outlives_the_file_and_the_reader_lets_go_of_it(tmp_path: Path) -> None:
    writer, reader = SegmentWriter(tmp_path, "aa"), SegmentReader(tmp_path)
    reference = writer.append(batch([7]))
    column = reader.read(reference).column("x")
    os.unlink(tmp_path / reference.segment)
    reader.forget_unlinked()
    assert column.to_pylist() == [7]
    with pytest.raises(PayloadError, match="cannot be read"):
        reader.read(reference)


def test_a_segment_goes_once_its_writer_moved_on_and_no_block_is_live(tmp_path: Path) -> None:
    writer, custody = SegmentWriter(tmp_path, "aa", segment_bytes=512), Custody(tmp_path)
    places = [writer.append(batch([n])) for n in range(3)]
    assert [place.segment[-8] for place in places] == ["0", "1", "2"]
    blocks = [custody.admit("aa", p.segment, p.offset, p.length) for p in places]
    custody.free(blocks[0])
    custody.free(blocks[2])
    custody.sweep()
    assert sorted(os.listdir(tmp_path)) == ["aa-000001.arrows", "aa-000002.arrows"]
    custody.leave("aa")
    custody.sweep()
    assert sorted(os.listdir(tmp_path)) == ["aa-000001.arrows"]
    custody.free(blocks[1])
    custody.sweep()
    assert os.listdir(tmp_path) == []


def test_a_client_that_leaves_takes_what_it_never_announced(tmp_path: Path) -> None:
    SegmentWriter(tmp_path, "aa").append(batch([1]))
    custody = Custody(tmp_path)
    custody.leave("aa")
    custody.sweep()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "name", ["../etc/passwd", "bb-000000.arrows", "aa-000000.arrows/x", "aa-000009.arrows"]
)
def test_a_client_can_name_no_file_but_its_own(tmp_path: Path, name: str) -> None:
    SegmentWriter(tmp_path, "bb").append(batch([1]))
    with pytest.raises(PayloadError):
        Custody(tmp_path).admit("aa", name, 0, 8)


def test_the_millionth_segment_comes_after_those_before(tmp_path: Path) -> None:
    custody = Custody(tmp_path)
    for number in (999_999, 1_000_000):
        (tmp_path / segment_name("aa", number)).write_bytes(bytes(64))
        custody.admit("aa", segment_name("aa", number), 0, 64)
    assert len(custody) == 2
    with pytest.raises(PayloadError, match=r"comes after 'aa-1000000\.arrows' was begun"):
        custody.admit("aa", "aa-000007.arrows", 0, 64)


def test_a_block_outside_of_its_segment_is_refused(tmp_path: Path) -> None:
    place = SegmentWriter(tmp_path, "aa", segment_bytes=512).append(batch([1]))
    with pytest.raises(PayloadError, match="lies outside of segment"):
        Custody(tmp_path).admit("aa", place.segment, 500, 100)


def test_bytes_that_are_no_block_are_refused(tmp_path: Path) -> None:
    place = SegmentWriter(tmp_path, "aa").append(batch([1]))
    with pytest.raises(PayloadError, match="holds no block"):
        SegmentReader(tmp_path).read(Reference(segment=place.segment, offset=64, length=8))


def test_a_column_is_gathered_in_lease_order_from_several_blocks() -> None:
    pieces = [piece([10, 11, 12], [2, 0], [0, 2]), piece([20, 21], [1, 2], [0, 1])]
    assert gather(["x"], pieces, 3)["x"].to_pylist() == [12, 20, 10], "the first of two cells is taken"
    with pytest.raises(PayloadError, match="has cells for 1 of 2 rows"):
        gather(["x"], [piece([1], [0], [0])], 2)


def test_rows_of_one_block_in_a_row_are_gathered_without_a_copy() -> None:
    source = piece(list(range(100)), list(range(50)), list(range(10, 60)))
    view = gather(["x"], [source], 50)["x"]
    assert view.buffers()[1].address == source.batch.column("x").buffers()[1].address
    assert np.array_equal(view.to_numpy(), np.arange(10, 60))
