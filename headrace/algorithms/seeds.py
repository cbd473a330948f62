"""Seeds of single samples: pure functions of what names the sample, so order and batching never matter."""

import hashlib
import struct


def sample_seed(run_seed: int, epoch: int, uid: int, index: int) -> int:
    """63-bit seed of sample `index` of prompt `uid` in `epoch`; each argument is an int64.

    BLAKE2b over the four numbers: neighbours get unrelated streams, and every machine the same.
    """
    digest = hashlib.blake2b(struct.pack("<4q", run_seed, epoch, uid, index), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
