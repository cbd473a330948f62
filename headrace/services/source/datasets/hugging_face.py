"""A data set of the `datasets` package that is on this machine: saved, cached, or a folder of data files.

Nothing is fetched from a network. Rows are read from Arrow files that are mapped into memory; every row is
checked when the data set is opened.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.services.options import HuggingFaceData
from headrace.services.source.datasets.base import DatasetError, Example, Labels
from headrace.services.source.datasets.columnar import check_rows, row_example, wanted, where
from headrace.services.source.datasets.entries import labels_of

if TYPE_CHECKING:
    import datasets

SAVED = ("dataset_dict.json", "state.json")
"""Files of which save_to_disk leaves one in its folder."""


class HuggingFaceRows:
    def __init__(self, options: HuggingFaceData) -> None:
        self._options = options
        self._all = opened(options)
        self._rows = self._all.select_columns(wanted(options, self._all.column_names))
        check_rows((self._row(index) for index in range(len(self))), options)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Example:
        return row_example(self._row(index), self._options, where(self._options, index))

    def _row(self, index: int) -> dict[str, Any]:
        return dict(self._rows[index])

    def labels(self) -> Labels:
        """Raises DatasetError where only some rows have a domain or a pass rate."""
        return labels_of(self._options, self._column, lambda index: where(self._options, index))

    def _column(self, key: str) -> list[Any]:
        return list(self._all[key]) if key in self._all.column_names else []


def missing() -> str | None:
    """What has to be installed first, None if nothing; imports nothing heavy."""
    from importlib.util import find_spec

    if find_spec("datasets") is not None:
        return None
    return "the package datasets is not installed; pip install 'headrace[datasets]', or use jsonl or parquet"


def is_ready(options: HuggingFaceData) -> bool:
    """Whether `opened` maps what is there, rather than convert a folder of data files first."""
    folder = Path(options.path)
    return not folder.is_dir() or any((folder / name).is_file() for name in SAVED)


def opened(options: HuggingFaceData) -> "datasets.Dataset":
    """The split, without a look at its rows. Raises DatasetError."""
    if (problem := missing()) is not None:
        raise DatasetError(problem)
    import datasets
    from datasets.exceptions import DatasetsError

    datasets.disable_progress_bars()
    folder = Path(options.path)
    try:
        if not folder.is_dir():
            found = _cached(options)
        elif is_ready(options):
            found = datasets.load_from_disk(str(folder))
        else:
            found = datasets.load_dataset(str(folder.absolute()), name=options.subset)
    except (OSError, ValueError, DatasetsError) as error:
        told = " ".join(str(error).split())
        raise DatasetError(f"datasets: {options.path} cannot be opened: {told}{_way_out(options)}") from error
    if options.subset is not None and folder.is_dir() and is_ready(options):
        raise DatasetError(f"datasets: {options.path} was saved whole and has no subsets; leave subset out")
    if not isinstance(found, datasets.Dataset):
        return found[_split(options, found)]
    if options.split not in (None, str(found.split)):
        raise DatasetError(
            f"datasets: {options.path} is one split, {found.split}, not {options.split!r}; leave split out, "
            "or name the folder of that one"
        )
    return found


def _cached(options: HuggingFaceData) -> Any:
    """What an earlier load_dataset left in the cache of the package, by its name."""
    from datasets.packaged_modules.cache.cache import Cache

    name = options.path
    return Cache(
        dataset_name=name.rpartition("/")[2],
        config_name=options.subset,
        repo_id=name,
        version="auto",
        hash="auto",
    ).as_dataset()


def _split(options: HuggingFaceData, there: Any) -> str:
    named = options.split or ("train" if "train" in there or len(there) != 1 else next(iter(there)))
    if named not in there:
        raise DatasetError(
            f"datasets: {options.path} has no split {named!r}; set dataset.split to one of {', '.join(there)}"
        )
    return str(named)


def _way_out(options: HuggingFaceData) -> str:
    if Path(options.path).is_dir():
        return ""
    return (
        "; there is no such folder, and a name is looked for in the local cache alone: fetch it first with "
        f"python -c \"import datasets; datasets.load_dataset('{options.path}')\""
    )
