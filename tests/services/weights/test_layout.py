"""Where tensors lie in a version's file, and what its header says."""

import json

import pytest

from headrace.services.errors import WeightsError
from headrace.services.weights.layout import (
    WIDTHS,
    Bucket,
    Form,
    Header,
    arrange,
    checksum_of,
    header_size,
    parse,
)
from headrace.services.weights.tensors import TORCH_NAMES

MIB = 1 << 20
LAYOUT = arrange(
    {
        "flags": Form(dtype="BOOL", shape=(3,)),
        "b": Form(dtype="F32", shape=(2, 3)),
        "half": Form(dtype="BF16", shape=(5,)),
        "a": Form(dtype="F32", shape=()),
    }
)
DIGESTS = ("1" * 32, "2" * 32, "3" * 32)


def test_wide_elements_come_first_and_nothing_lies_between_tensors() -> None:
    assert [(t.name, t.start, t.end) for t in LAYOUT.tensors] == [
        ("a", 0, 4),
        ("b", 4, 28),
        ("half", 28, 38),
        ("flags", 38, 41),
    ]
    assert LAYOUT.size == 41


def test_tensors_that_fill_lines_of_a_cache_come_before_all_others_and_begin_on_one() -> None:
    layout = arrange(
        {
            "a": Form(dtype="F32", shape=(3,)),
            "line": Form(dtype="F32", shape=(16,)),
            "half": Form(dtype="BF16", shape=(64,)),
            "z": Form(dtype="F64", shape=(1,)),
        }
    )
    assert [(t.name, t.start) for t in layout.tensors] == [("line", 0), ("half", 64), ("z", 192), ("a", 200)]
    assert [(b.start, b.end, b.width) for b in layout.buckets()] == [
        (0, 64, 4),
        (64, 192, 2),
        (192, 200, 8),
        (200, 212, 4),
    ]


def test_a_bucket_holds_elements_of_one_width() -> None:
    assert LAYOUT.buckets() == (
        Bucket(start=0, end=28, width=4),
        Bucket(start=28, end=38, width=2),
        Bucket(start=38, end=41, width=1),
    )
    assert LAYOUT.of(LAYOUT.buckets()[0]) == ["a", "b"]


def test_a_bucket_has_8_mib_at_most_and_may_cut_a_tensor() -> None:
    layout = arrange({"w": Form(dtype="F32", shape=(5 * MIB,)), "v": Form(dtype="F64", shape=(MIB // 2,))})
    assert [(b.start // MIB, b.end // MIB, b.width) for b in layout.buckets()] == [
        (0, 4, 8),
        (4, 12, 4),
        (12, 20, 4),
        (20, 24, 4),
    ]


def test_a_header_fills_whole_pages_and_comes_back() -> None:
    header = Header(layout=LAYOUT, digests=DIGESTS)
    data = header.to_bytes()
    assert len(data) == header_size(LAYOUT) == 4096
    assert int.from_bytes(data[:8], "little") == 4088
    said = json.loads(data[8:])
    assert said["b"] == {"dtype": "F32", "shape": [2, 3], "data_offsets": [4, 28]}
    assert said["__metadata__"] == {"digests": "1" * 32 + "2" * 32 + "3" * 32}
    assert parse(data) == header


def test_a_checksum_is_of_the_digests() -> None:
    one = Header(layout=LAYOUT, digests=DIGESTS)
    other = Header(layout=LAYOUT, digests=(*DIGESTS[:2], "4" * 32))
    assert checksum_of(one.to_bytes()) == checksum_of(parse(one.to_bytes()).to_bytes())
    assert checksum_of(one.to_bytes()) != checksum_of(other.to_bytes())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 8 + b"[]",
        b"\0" * 8 + b"{}",
        b"\0" * 8 + b'{"__metadata__": {"digests": ""}, "w": {"dtype": "X9", "shape": [1]}}',
        Header(layout=LAYOUT, digests=DIGESTS[:2]).to_bytes(),
        Header(layout=LAYOUT, digests=DIGESTS).to_bytes().replace(b"[4,28]", b"[4,24]"),
    ],
)
def test_what_no_store_wrote_is_no_header(data: bytes) -> None:
    with pytest.raises(WeightsError, match="no header of weights: "):
        parse(data)


def test_every_type_of_a_file_is_one_of_torch() -> None:
    assert TORCH_NAMES.keys() == WIDTHS.keys()
