"""Leased rows as a table for a file: uid, group, version, then the columns and texts that are kept."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.services.columns import NUMBERS
from headrace.services.sink.formats import JSON
from headrace.services.texts import TEXTS, decode
from headrace.transferqueue import Rows


def table_of(rows: Rows, columns: Sequence[str], tokenizer: Any) -> pa.Table:
    """`tokenizer` is asked only for the texts `prompt` and `response`.

    `version` is the version of the policy at which the row was begun, -1 for one that was not.
    """
    numbers = (rows.uids, rows.groups, rows.versions)
    made = {name: pa.array(values) for name, values in zip(NUMBERS, numbers, strict=True)}
    for name in columns:
        made[name] = _text(rows, name, tokenizer) if name in TEXTS else _column(rows, name)
    return pa.table(made)


def _text(rows: Rows, name: str, tokenizer: Any) -> pa.Array:
    return pa.array(decode(tokenizer, rows[TEXTS[name]]), pa.string())


def _column(rows: Rows, name: str) -> pa.Array:
    array = rows.arrow(name)
    is_json = rows.spec.column(name).dtype == "json"
    return pa.ExtensionArray.from_storage(JSON, array) if is_json else array
