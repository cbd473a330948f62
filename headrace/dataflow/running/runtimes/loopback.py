"""Has the processes of an embedded Ray cluster listen on loopback alone.

Ray takes 127.0.0.1 for the address by which other machines reach this one, and listens on every interface
unless it was told, where it was imported, that there are to be no other machines.
"""

import os

VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


def import_ray_for_this_machine() -> None:
    """To be called before anything else imports Ray; the variable is not left to processes of ours."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "0"
    try:
        import ray  # noqa: F401
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before
