"""Bytes copied and digested by several threads at once, a stretch that fits a cache at a time.

One core does not use up the memory's rate, and bytes that are digested as they are copied come from memory
once.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import xxhash

from headrace.services.weights.layout import Bucket

STRETCH_BYTES = 512 << 10
"""Of which source and target fit a core's cache; less, and threads would wait for the interpreter."""
THREADS = 4
"""At most; more gain nothing on a memory that a few cores saturate."""

T = TypeVar("T")
R = TypeVar("R")


def in_threads(call: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """The results in order, made by this thread and others; an error is raised once all have ended."""
    results: dict[int, R] = {}
    left = iter(range(len(parts)))

    def work() -> None:
        for number in left:
            results[number] = call(parts[number])

    others = min(len(os.sched_getaffinity(0)), THREADS, len(parts)) - 1
    if others < 1:
        work()
    else:
        with ThreadPoolExecutor(others, thread_name_prefix="weights") as pool:
            helping = [pool.submit(work) for _ in range(others)]
            work()
            for each in helping:
                each.result()
    return [results[number] for number in range(len(parts))]


def copy_digested(
    sources: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    starts: Sequence[int],
    buckets: Sequence[Bucket],
) -> list[str]:
    """Copies each source, uint8 [n], to its target of the same size; the digests of the buckets that they
    fill, one behind the other from their `starts`. What is its own target is digested only.
    """

    def copied(bucket: Bucket) -> str:
        digest = xxhash.xxh3_128()
        for number, begin, end in _stretches(sources, starts, bucket):
            piece, target = sources[number][begin:end], targets[number]
            digest.update(piece.data)
            if target is not sources[number]:
                np.copyto(target[begin:end], piece)
        return digest.hexdigest()

    return in_threads(copied, buckets)


def digests(data: np.ndarray, buckets: Sequence[Bucket]) -> list[str]:
    """xxh3-128 of each bucket of `data`, uint8 [n]."""
    return in_threads(lambda bucket: xxhash.xxh3_128_hexdigest(data[bucket.start : bucket.end].data), buckets)


def _stretches(
    sources: Sequence[np.ndarray], starts: Sequence[int], bucket: Bucket
) -> Iterator[tuple[int, int, int]]:
    """The bytes of a bucket in order: number of a source, and [begin, end) in it."""
    at = bucket.start
    number = bisect_right(starts, at) - 1
    while at < bucket.end:
        source, begin = sources[number], at - starts[number]
        end = min(len(source), bucket.end - starts[number], begin + STRETCH_BYTES)
        if begin < end:
            yield number, begin, end
        at = starts[number] + max(begin, end)
        if end == len(source):
            number += 1
