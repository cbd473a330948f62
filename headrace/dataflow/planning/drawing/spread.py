"""Where things in a row stand: as near as can be to where they would like to, without touching."""

from collections.abc import Sequence
from itertools import pairwise


def spread(wishes: Sequence[float], widths: Sequence[float], gap: float) -> list[float]:
    """Centres in the given order, `gap` apart at least, with the least sum of squared distances to the
    wishes: isotonic regression by pooling neighbours that would overlap."""
    offsets = [0.0]
    for left, right in pairwise(widths):
        offsets.append(offsets[-1] + (left + right) / 2 + gap)
    pools: list[tuple[float, int]] = []
    for wish, offset in zip(wishes, offsets, strict=False):
        mean, count = wish - offset, 1
        while pools and pools[-1][0] >= mean:
            before, number = pools.pop()
            mean = (mean * count + before * number) / (count + number)
            count += number
        pools.append((mean, count))
    starts = [mean for mean, count in pools for _ in range(count)]
    return [start + offset for start, offset in zip(starts, offsets, strict=False)]
