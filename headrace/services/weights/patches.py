"""What turns a bucket of one version into that of another: only what changed, exact to the bit.

A patch is one byte that says its kind and then `whole`: the bytes; or `sparse`: for each block of 65,536
elements how many changed (uint32), where in their blocks these are (uint16), and their new values. Elements
are compared as bits: a NaN is a value, and 0 is not -0. A sparse patch is always smaller than a whole one.
"""

import numpy as np

from headrace.services.errors import WeightsError

_WHOLE, _SPARSE = b"\0", b"\1"
_BLOCK = 1 << 16
_COUNT, _PLACE = np.dtype("<u4"), np.dtype("<u2")


def whole(new: np.ndarray) -> bytes:
    """The patch that needs no base; `new` is uint8 [n]."""
    return b"".join((_WHOLE, new.data))


def between(old: np.ndarray, new: np.ndarray, width: int) -> bytes:
    """The smaller patch from `old` to `new`, uint8 [n] each, of elements of `width` bytes."""
    before, after = _elements(old, width), _elements(new, width)
    changed = np.flatnonzero(before != after)
    blocks = _blocks(len(after))
    if blocks * _COUNT.itemsize + len(changed) * (_PLACE.itemsize + width) >= len(new):
        return whole(new)
    counts = np.bincount(changed // _BLOCK, minlength=blocks)
    places = (changed % _BLOCK).astype(_PLACE)
    return b"".join((_SPARSE, counts.astype(_COUNT).tobytes(), places.tobytes(), after[changed].tobytes()))


def apply(patch: bytes, old: np.ndarray | None, target: np.ndarray, width: int) -> None:
    """Writes the new bytes to `target`, uint8 [n]; `old`, as long, is what the patch was made from.

    Raises WeightsError for a patch that fits neither.
    """
    kind, body = patch[:1], memoryview(patch)[1:]
    if kind == _WHOLE and len(body) == len(target):
        target[:] = np.frombuffer(body, np.uint8)
    elif kind == _SPARSE and old is not None:
        target[:] = old
        places, values = _parsed(body, len(target), width)
        _elements(target, width)[places] = values
    else:
        raise WeightsError(
            f"a patch of kind {kind.hex() or 'none'} and {len(body)} bytes does not fit a bucket of "
            f"{len(target)}"
        )


def is_sparse(patch: bytes) -> bool:
    return patch[:1] == _SPARSE


def _parsed(body: memoryview, size: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Which elements change, and to what."""
    blocks = _blocks(size // width)
    head = blocks * _COUNT.itemsize
    counts = (
        np.frombuffer(body[:head], _COUNT).astype(np.int64) if len(body) >= head else np.zeros(0, np.int64)
    )
    total = int(counts.sum())
    middle = head + total * _PLACE.itemsize
    if len(counts) != blocks or len(body) != middle + total * width:
        raise WeightsError(f"a sparse patch of {len(body)} bytes is not as long as it says")
    places = np.repeat(np.arange(blocks) * _BLOCK, counts) + np.frombuffer(body[head:middle], _PLACE)
    if total and places.max() >= size // width:
        raise WeightsError(f"a sparse patch names element {places.max()} of {size // width}")
    return places, _elements(np.frombuffer(body[middle:], np.uint8), width)


def _elements(data: np.ndarray, width: int) -> np.ndarray:
    return data.view(np.dtype(f"<u{width}"))


def _blocks(elements: int) -> int:
    return -(-elements // _BLOCK)
