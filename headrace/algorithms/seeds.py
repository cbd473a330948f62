"""Seeds of single samples: pure functions of what names the sample, so order and batching never matter."""

import hashlib
import struct


def sample_seed(run_seed: int, *identity: int) -> int:
    """63-bit seed of the sample that `identity` names in the run, such as (epoch, uid, index); all int64.

    BLAKE2b over the numbers: neighbours get unrelated streams, and every machine the same.
    """
    numbers = (run_seed, *identity)
    digest = hashlib.blake2b(struct.pack(f"<{len(numbers)}q", *numbers), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
