"""A file to start from: the commented starter, or a shipped dataflow as it stands, its includes by name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headrace.dataflow.language.problems import listing, suggestion

SCHEMA_FILE: Final = "dataflow.schema.json"
STARTER: Final = Path(__file__).with_name("starter.yaml")


class StartError(Exception):
    """A file that cannot be started; nothing was written."""


def write_start(file: Path, *, shipped: str | None = None, with_schema: bool = False) -> Iterator[Path]:
    """Writes `file`, and the schema that its first line names for editors; the files, as they are written.

    Raises StartError for a file that is there and for an unknown dataflow.
    """
    text = _source(shipped).read_text(encoding="utf-8")
    schema = file.with_name(SCHEMA_FILE)
    if file.exists():
        raise StartError(f"{file} is there already; give the name of a new file, or remove it")
    if not file.parent.is_dir():
        raise StartError(f"there is no folder {file.parent}; make it, or give another file")
    if with_schema:
        from headrace.dataflow.language.schema import schema_text

        schema.write_text(schema_text(), encoding="utf-8")
        yield schema
        text = f"# yaml-language-server: $schema={SCHEMA_FILE}\n{text}"
    file.write_text(text.replace("dataflow.yaml", file.name), encoding="utf-8")
    yield file


def _source(shipped: str | None) -> Path:
    from headrace.dataflow.language.shipped import shipped as all_shipped

    if shipped is None:
        return STARTER
    known = all_shipped()
    if shipped not in known:
        way_out = suggestion(shipped, known, otherwise="name one of these")
        raise StartError(f"there is no shipped dataflow '{shipped}' (allowed: {listing(known)}); {way_out}")
    return known[shipped]
