"""What a process of root may do besides: given up, so that its limits hold for it as for any other."""

import ctypes
import struct

VERSION = 0x20080522


def give_up() -> None:
    """All capabilities of this thread, and of all that comes of it once no new ones are given; as no change
    to a user that has none. Raises OSError where the kernel refuses."""
    calls = ctypes.CDLL(None, use_errno=True)
    if calls.capset(struct.pack("=Ii", VERSION, 0), struct.pack("=6I", *[0] * 6)) != 0:
        raise OSError(ctypes.get_errno(), "the kernel takes no privileges back")
