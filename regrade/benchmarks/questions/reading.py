"""Sources of rows, and reading of local files with `datasets`, without changing values."""

import csv
import logging
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regrade.processes.importing import quick_imports
from regrade.settings.errors import SourceError

if TYPE_CHECKING:
    from datasets import Dataset, Features

FILE_TYPES = (".parquet", ".jsonl", ".json", ".csv")
_NO_ROWS = "it holds no rows; expected at least one"


class Source(ABC):
    """Rows of each split, at a pinned revision."""

    config: str | None = None
    """Configuration of a Hub dataset."""

    def __init__(self, benchmark: str, name: str, place: str) -> None:
        """Name a source.

        Args:
            benchmark: Name for messages.
            name: Hub dataset id, or `local`.
            place: The dataset, file or folder, for messages.
        """
        self._benchmark, self.name, self.place = benchmark, name, place

    @abstractmethod
    def revision(self, splits: Sequence[str]) -> str:
        """Return the commit of the Hub dataset, or the sha256 over the files of these splits.

        Raises:
            SourceError: If the dataset, revision or file does not exist.
            HubError: If the Hub could not be reached.
        """

    @abstractmethod
    def rows(
        self, split: str, columns: Sequence[str], head: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the named columns of a split, row by row; with `head`, only the first rows.

        Raises:
            SourceError: If the split cannot be read, is empty, or lacks a column.
            HubError: If the Hub failed.
        """

    def table(self, split: str, columns: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Return the rows, which are read one by one if the source can: for columns that are too large for memory."""
        return self.rows(split, columns)

    def error(self, problem: str) -> SourceError:
        """Return an error that names the benchmark and this source."""
        return SourceError(self._benchmark, self.place, problem)


class UnreadableError(Exception):
    """A file or split cannot be read. Sources turn this into a `SourceError` that names benchmark and source."""

    def __init__(self, problem: str, missing: Sequence[str] = ()) -> None:
        self.missing = tuple(missing)
        """Columns that do not exist."""
        super().__init__(problem)


def read_file(path: Path, columns: Sequence[str], head: int | None = None) -> list[dict[str, Any]]:
    """Return the named columns of a parquet, jsonl, json or csv file, row by row.

    Nothing is cached between calls: the Arrow cache of `datasets` identifies a file by path and modification time,
    and a replaced file can have the same. CSV values stay text: `None` does not become `NaN`, nor `007` 7.

    Args:
        path: File with one of the types in `FILE_TYPES`.
        columns: Columns to return.
        head: Number of rows to return; None: all.

    Raises:
        UnreadableError: If the file's content does not match its type, the file is empty, or a column is missing.
    """
    kind = path.suffix.lower()
    with _reading(path, f" as {kind[1:]}") as options:
        from datasets import Dataset

        if kind == ".csv":
            features = _csv_features(path)
            dataset = Dataset.from_csv(
                str(path), features=features, keep_default_na=False, **options
            )
        else:
            load = Dataset.from_parquet if kind == ".parquet" else Dataset.from_json
            dataset = load(str(path), **options)
        # Inside the block, because text that is not UTF-8 raises an error only here.
        dataset = checked_columns(dataset, columns)
        if kind in (".jsonl", ".json"):
            _refuse_dates(dataset)
        return first_rows(dataset, head)


def read_dataset(path: Path) -> "Dataset":
    """Return a parquet, jsonl, json or csv file as a dataset in memory, with all columns.

    Raises:
        UnreadableError: If the file's content does not match its type, or the file is empty.
    """
    with _reading(path) as options:
        from datasets import Dataset

        read = {".parquet": Dataset.from_parquet, ".csv": Dataset.from_csv}
        load = read.get(path.suffix.lower(), Dataset.from_json)
        dataset: Dataset = load(str(path), keep_in_memory=True, **options)
        return dataset


@contextmanager
def _reading(path: Path, form: str = "") -> Iterator[dict[str, Any]]:
    """Check the size of a file, and name it if it cannot be read; the arguments keep its cache in a folder of the block's own."""
    with quick_imports():
        import pyarrow as pa  # noqa: PLC0415 - `regrade benchmarks` reads no file
        from datasets.exceptions import DatasetsError

    known = (DatasetsError, pa.ArrowException, csv.Error, ValueError, OSError, StopIteration)
    with tempfile.TemporaryDirectory(prefix="regrade-") as cache, quiet_datasets():
        try:
            _check_size(path)
            yield {"cache_dir": cache}
        except known as error:
            reason = str(error.__cause__ or error).strip() or type(error).__name__
            raise UnreadableError(f"it cannot be read{form}: {reason.splitlines()[0]}") from error


def _check_size(path: Path) -> None:
    """Refuse a file without rows, and one that is far larger in memory."""
    from regrade.answers.parquet import bomb_in  # noqa: PLC0415 - as above

    if not _has_rows(path):
        raise UnreadableError(_NO_ROWS)
    if path.suffix.lower() == ".parquet" and (problem := bomb_in(path)):
        raise UnreadableError(problem)


def _refuse_dates(dataset: "Dataset") -> None:
    """Refuse columns of dates, which the JSON reader makes from text that looks like dates."""
    for name, feature in dataset.features.items():
        if str(getattr(feature, "dtype", "")).startswith(("date", "time")):
            raise UnreadableError(
                f"column '{name}' holds texts that look like dates, which the JSON reader would rewrite; save the "
                "file as csv or parquet instead"
            )


def first_rows(dataset: "Dataset", head: int | None) -> list[dict[str, Any]]:
    """Return the first rows of a dataset; None: all."""
    if head is not None and head < len(dataset):
        dataset = dataset.select(range(head))
    rows: list[dict[str, Any]] = dataset.to_list()
    return rows


def checked_columns(dataset: "Dataset", columns: Sequence[str]) -> "Dataset":
    """Return a dataset with only the named columns.

    Raises:
        UnreadableError: If there are no rows, or a column is missing.
    """
    if not len(dataset):
        raise UnreadableError(_NO_ROWS)
    missing = [name for name in columns if name not in dataset.column_names]
    if missing:
        raise UnreadableError(
            f"there is no column {_quoted(missing)}; found {_quoted(dataset.column_names)}. Rename the columns",
            missing,
        )
    return dataset.select_columns(list(columns))


@contextmanager
def quiet_datasets() -> Iterator[None]:
    """Turn off progress bars, logging and download counts of `datasets` while the block runs."""
    import datasets
    from datasets import config
    from datasets.utils import logging as datasets_logging

    bars = not datasets.are_progress_bars_disabled()
    verbosity, counts = datasets_logging.get_verbosity(), config.HF_UPDATE_DOWNLOAD_COUNTS
    datasets.disable_progress_bars()
    datasets_logging.set_verbosity(logging.CRITICAL)
    config.HF_UPDATE_DOWNLOAD_COUNTS = False  # saves a request to S3 per load
    try:
        yield
    finally:
        config.HF_UPDATE_DOWNLOAD_COUNTS = counts
        datasets_logging.set_verbosity(verbosity)
        if bars:
            datasets.enable_progress_bars()


def _has_rows(path: Path) -> bool:
    """True if the file has a row. `datasets` fails on empty files with a different error for each type."""
    if path.suffix.lower() == ".parquet":
        from pyarrow.parquet import read_metadata  # noqa: PLC0415 - as above

        return read_metadata(path).num_rows > 0
    with path.open("rb") as file:
        header = path.suffix.lower() == ".csv"
        return any(True for line in islice(filter(bytes.strip, file), int(header), None))


def _csv_features(path: Path) -> "Features":
    """Return text as the type of all columns, after checking that every row is as long as the header."""
    from datasets import Features, Value

    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        header = next(reader)
        for row in reader:
            if row and len(row) != len(header):
                raise UnreadableError(
                    f"line {reader.line_num} has {len(row)} values, but the header names {len(header)} columns; "
                    "put values with commas or line breaks in double quotes"
                )
    return Features({name: Value("string") for name in header})


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
