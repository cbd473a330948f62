"""New rows into a table, whole groups at a time; a full table is its normal state and is waited for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.services.trace import Trace
from headrace.transferqueue import Client, WaitTimeout

_PUT_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """Rows of whole groups, ready to be put: one value per row, everywhere."""

    uids: np.ndarray
    """int64 [B]."""
    groups: np.ndarray
    """int64 [B]."""
    columns: Mapping[str, Any] = field(repr=False)


async def put_whole(client: Client, table: str, fresh: Fresh, trace: Trace) -> None:
    """Waits for room, which the table's consumers make, for as long as it takes; `trace` hears when it was
    done."""
    while True:
        try:
            await client.put(table, fresh.uids, fresh.columns, groups=fresh.groups, timeout_s=_PUT_TIMEOUT_S)
            trace.put(table, fresh.uids)
            return
        except WaitTimeout:
            continue
