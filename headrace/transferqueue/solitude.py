"""Settings of a process that hosts a controller and nothing else."""

import gc

_YOUNG_OBJECTS = 50_000


def quiet_collector() -> None:
    """Lets the cycle collector run rarely. Rows hold no cycles once they have left their table, so that it
    finds nothing there, and walking the rows that stay costs a put several times its own work."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 100)
