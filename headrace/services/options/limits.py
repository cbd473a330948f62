"""What a function that is not trusted may use."""

from dataclasses import dataclass

from headrace.algorithms.bounds import Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of a verifier's process, kept by the kernel of Linux: of files it reads Python, its packages and the
    folder of the function, never the run's directory, and its environment has no keys and tokens."""

    memory_mib: Count = 4096
    """Of its own; what asks for more gets a MemoryError."""
    network: bool = False
    """Whether it may open sockets."""
    processes: bool = False
    """Whether it may start others; each has the same limits, and ends with it."""
    writes: bool = False
    """Whether it may write: into a folder of its own, TMPDIR, that goes with its process."""
    reads: tuple[str, ...] = ()
    """Further files and folders that it may read."""
