"""People's labels of answers: `labels/<folder of the answer set>/labels-<hash>.json` and a table beside it.

A file holds the labels of one import. It is named by the hash of its table, never changed and never removed: a label that is
revised stands in a later file.
"""

import hashlib
from collections.abc import Iterable
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field

from regrade.answers.base import StoredFile
from regrade.answers.documents import json_bytes
from regrade.answers.parquet import ParquetReader, parquet_bytes
from regrade.answers.publishing import commit_files
from regrade.answers.scorefile import SetDocument
from regrade.answers.sets import AnswerSet
from regrade.records.columns import SCHEMA_VERSION
from regrade.settings import StrictModel, Timestamp
from regrade.settings.errors import DamagedAnswersError
from regrade.settings.files import file_sha256
from regrade.stats.scale import Scale

FOLDER = "labels"
_TIME = pa.timestamp("us", tz="UTC")
_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("sample_id", pa.string(), nullable=False),
    pa.field("repeat", pa.int32(), nullable=False),
    pa.field("label", pa.string(), nullable=False),
    pa.field("value", pa.float64(), nullable=False),
    pa.field("rater", pa.string(), nullable=False),
    pa.field("labelled_at", _TIME, nullable=False),
]
LABEL_SCHEMA = pa.schema(_FIELDS, metadata={"regrade_schema_version": str(SCHEMA_VERSION)})
"""One row for each labelled answer and rater."""

Seed = Annotated[int, Field(ge=0, lt=2**63)]


class DrawnSample(StrictModel):
    """A random sample of the answers of an answer set: the first `size` of them in the random order of `seed`."""

    seed: Seed
    size: int = Field(ge=1)
    population: int = Field(ge=1)
    """Answers that it was drawn from."""
    population_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """sha256 of their sample ids and repeats."""


class LabelFile(SetDocument):
    """The JSON file of one import of labels."""

    table_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """sha256 of the table."""
    rows: int = Field(ge=1)
    raters: tuple[str, ...]
    labels: dict[str, float]
    """Labels that people could give, with their values; empty if they gave numbers."""
    scale: Scale
    sample: DrawnSample | None = None
    """None: the answers were chosen by hand."""
    field: str | None = Field(None, exclude_if=lambda name: name is None)
    """Field of the verdict that the labels are about, such as `style`. None: the first, which gives the headline number."""
    answers: tuple[str, ...]
    """sha256 of the shards of the labelled answers."""
    imported_at: Timestamp

    @property
    def label(self) -> str:
        """File name without extension."""
        return f"labels-{self.table_sha256[:8]}"


def label_files(answers: AnswerSet) -> list[LabelFile]:
    """Return the label files of an answer set, oldest first.

    Raises:
        DamagedAnswersError: If a file is not one of labels, has the wrong name, or was written by a newer regrade.
    """
    files = answers.repository.files(answers.revision, answers.labels_folder)
    records = [_record(answers, files[path]) for path in sorted(files) if path.endswith(".json")]
    return sorted(records, key=lambda record: record.imported_at)


def _record(answers: AnswerSet, file: StoredFile) -> LabelFile:
    return answers.read_record(file, LabelFile, "the JSON of labels")


def read_labels(answers: AnswerSet, file: StoredFile) -> tuple[LabelFile, pa.Table]:
    """Return the JSON and the table of an import of labels; errors as in `label_files` and `label_table`."""
    record = _record(answers, file)
    return record, label_table(answers, record)


def label_table(answers: AnswerSet, record: LabelFile) -> pa.Table:
    """Return the labels of a file: `LABEL_SCHEMA`.

    Raises:
        DamagedAnswersError: If the table is missing, or not the one that the file names.
    """
    path = f"{answers.labels_folder}/{record.label}.parquet"
    local = answers.table_file(path, "the labels have a JSON file, but no table.")
    if file_sha256(local) != record.table_sha256:
        raise DamagedAnswersError(path, "its sha256 is not the one in its JSON file.")
    table = ParquetReader(path, local, LABEL_SCHEMA, LABEL_SCHEMA.names).table()
    if table.num_rows != record.rows:
        raise DamagedAnswersError(
            path, f"its JSON file says {record.rows:,} rows, it has {table.num_rows:,}."
        )
    low, high = record.scale.low, record.scale.high
    values = table["value"].to_numpy()
    if not ((values >= low) & (values <= high)).all():  # NaN is not between them either
        raise DamagedAnswersError(path, f"a value is not between {low:g} and {high:g}.")
    return table


def sealed_labels(table: pa.Table) -> tuple[bytes, str]:
    """Return a table of labels as Parquet, and its sha256."""
    content = parquet_bytes(table.cast(LABEL_SCHEMA))
    return content, hashlib.sha256(content).hexdigest()


def publish_labels(answers: AnswerSet, record: LabelFile, content: bytes) -> str:
    """Publish labels in one commit and return its revision.

    Args:
        answers: The labelled answer set.
        record: JSON file of the labels.
        content: Their table, as `sealed_labels` returns it.
    """
    stem = f"{answers.labels_folder}/{record.label}"
    files = {f"{stem}.parquet": content, f"{stem}.json": json_bytes(record)}
    specified = answers.manifest.specification
    message = f"Labels of {specified.model.name} on {specified.benchmark.name}: {record.rows} by {', '.join(record.raters)}"
    return commit_files(answers.repository, files, message[:200])


def labelled_folders(files: Iterable[str]) -> set[str]:
    """Return the folders of answer sets with labels, out of the paths of a repository."""
    return {
        path.removeprefix(f"{FOLDER}/").rpartition("/")[0]
        for path in files
        if path.startswith(f"{FOLDER}/") and path.endswith(".json")
    }
