"""What a staleness makes of a run."""

import math


def mode(staleness: float) -> str:
    """What a staleness makes of a run, in words."""
    if staleness == 0:
        return "synchronous, streaming: groups are trained on as they finish, none begins on old weights"
    if math.isinf(staleness):
        return "asynchronous, without a bound on staleness: only the table's rows hold generation back"
    ahead = f"generation runs up to {staleness:g} {'batch' if staleness <= 1 else 'batches'} ahead"
    kind = "partly synchronous" if staleness < 1 else "asynchronous"
    return f"{kind}: {ahead}, no sample is staler than {math.ceil(staleness)}"
