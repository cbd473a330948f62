"""Where each tensor of a version lies in its file, and the header that says so.

    8 bytes: length of the header │ header, JSON │ tensors, one behind the other

The file is a safetensors file; its data begins on a page. Tensors that fill whole lines of a cache come
first, so that each begins on one, as torch's own do; among them, and among the others, the widest elements.
Data is cut into buckets, each of elements of one width. Invariant: the header holds the digest of every
bucket and nothing of the version's number, so that its own checksum is that of the weights: equal
weights, equal checksums.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import xxhash

from headrace.services.errors import WeightsError

BUCKET_BYTES = 8 << 20
"""A multiple of every width."""
ALIGNED_BYTES = 64
"""A line of a cache; torch lays a tensor at a multiple of it."""
_PAGE = 4096
_DIGEST = 32
"""Hexadecimal digits of a bucket's xxh3-128."""
WIDTHS: Mapping[str, int] = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2,
    "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
}  # fmt: skip
"""Bytes of an element, by the name that safetensors has for its type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A tensor without its values."""

    dtype: str
    """One of WIDTHS."""
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        count = 1
        for length in self.shape:
            count *= length
        return count * WIDTHS[self.dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A tensor and the bytes [start, end) of the data that are its own."""

    name: str
    form: Form
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Bytes [start, end) of the data, elements of `width` bytes."""

    start: int
    end: int
    width: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The tensors of a model in the order of their bytes."""

    tensors: tuple[Placed, ...]

    @property
    def size(self) -> int:
        """Bytes of the data."""
        return self.tensors[-1].end if self.tensors else 0

    def buckets(self) -> tuple[Bucket, ...]:
        return tuple(self._buckets())

    def _buckets(self) -> Iterator[Bucket]:
        for width, group in groupby(self.tensors, lambda placed: WIDTHS[placed.form.dtype]):
            run = list(group)
            end = run[-1].end
            for start in range(run[0].start, end, BUCKET_BYTES):
                yield Bucket(start=start, end=min(start + BUCKET_BYTES, end), width=width)

    def of(self, bucket: Bucket) -> list[str]:
        """Names of the tensors that a bucket has bytes of."""
        return [t.name for t in self.tensors if t.start < bucket.end and bucket.start < t.end]


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a version's file says of itself before its data."""

    layout: Layout
    digests: tuple[str, ...]
    """xxh3-128 of each bucket, hexadecimal."""

    def to_bytes(self) -> bytes:
        """The first bytes of the file; as many for all weights of one layout."""
        entries: dict[str, Any] = {"__metadata__": {"digests": "".join(self.digests)}}
        for placed in self.layout.tensors:
            entries[placed.name] = {
                "dtype": placed.form.dtype,
                "shape": list(placed.form.shape),
                "data_offsets": [placed.start, placed.end],
            }
        text = json.dumps(entries, separators=(",", ":")).encode()
        text += b" " * (-(8 + len(text)) % _PAGE)
        return len(text).to_bytes(8, "little") + text


def arrange(forms: Mapping[str, Form]) -> Layout:
    """Tensors without holes between them, each aligned to its elements."""

    def order(item: tuple[str, Form]) -> tuple[bool, int, str]:
        name, form = item
        return form.size % ALIGNED_BYTES != 0, -WIDTHS[form.dtype], name

    start, tensors = 0, []
    for name, form in sorted(forms.items(), key=order):
        tensors.append(Placed(name=name, form=form, start=start, end=start + form.size))
        start += form.size
    return Layout(tensors=tuple(tensors))


def header_size(layout: Layout) -> int:
    """Bytes before the data."""
    return len(Header(layout=layout, digests=("0" * _DIGEST,) * len(layout.buckets())).to_bytes())


def checksum_of(header: bytes) -> str:
    """Of a version: xxh3-128 of its header, which tells the digest of every bucket."""
    return xxhash.xxh3_128_hexdigest(header)


def first_bytes(file: int) -> bytes:
    """The header of an open file; WeightsError where it is cut off."""
    length = int.from_bytes(os.pread(file, 8, 0), "little")
    header = os.pread(file, min(8 + length, os.fstat(file).st_size), 0)
    if len(header) != 8 + length:
        raise WeightsError(f"no file of weights: {len(header)} bytes where {8 + length} of header are due")
    return header


def parse(header: bytes) -> Header:
    """What `Header.to_bytes` wrote. Raises WeightsError on anything else."""
    try:
        entries = json.loads(header[8:])
        digests = _cut(entries.pop("__metadata__")["digests"])
        forms = {
            name: Form(dtype=str(said["dtype"]), shape=tuple(map(int, said["shape"])))
            for name, said in entries.items()
        }
        found = Header(layout=arrange(forms), digests=digests)
        is_ours = found.to_bytes() == header and len(digests) == len(found.layout.buckets())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WeightsError(f"no header of weights: {error}") from error
    if not is_ours:
        raise WeightsError("no header of weights: tensors or digests are not as this store writes them")
    return found


def _cut(digests: str) -> tuple[str, ...]:
    return tuple(digests[at : at + _DIGEST] for at in range(0, len(digests), _DIGEST))
