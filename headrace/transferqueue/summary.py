"""What the controller is told of cells that it never sees: lengths, versions, the figures that order rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.transferqueue.arrays import aligned_lengths, greatest, smallest
from headrace.transferqueue.link.wire import pack_floats, pack_ints
from headrace.transferqueue.schema import TableSpec


def summary(spec: TableSpec, arrays: Mapping[str, pa.Array], uids: np.ndarray) -> dict[str, Any]:
    """Fields of a put, one entry per uid [n]: `lengths` by label, `figures` by column, and where the put has
    the versions of its tokens the least (`floors`) and greatest (`ceilings`) of them."""
    fields: dict[str, Any] = {
        "lengths": {k: pack_ints(v) for k, v in aligned_lengths(spec, arrays, uids).items()},
        "figures": {k: pack_floats(arrays[k].to_numpy()) for k in spec.figures if k in arrays},
        "floors": None,
    }
    if spec.versions is not None and spec.versions.name in arrays:
        fields["floors"] = pack_ints(smallest(arrays[spec.versions.name]))
        fields["ceilings"] = pack_ints(greatest(arrays[spec.versions.name]))
    return fields
