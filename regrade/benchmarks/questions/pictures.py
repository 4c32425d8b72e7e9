"""Image columns of datasets: a struct of `bytes` and `path`, as `datasets` stores its feature `Image`, or a list of them."""

from collections.abc import Iterable, Mapping
from typing import Any

from regrade.benchmarks.questions.targets import RowError
from regrade.records.images import Image, ImageError, read_image

MOST_IMAGES = 32
"""Most images of a question."""


def with_marks(
    index: int, row: Mapping[str, Any], columns: Iterable[str]
) -> tuple[dict[str, Any], tuple[Image, ...]]:
    """Return a row whose images are replaced by their marks, and the images.

    Args:
        index: Number of the row, for messages.
        row: The row.
        columns: Columns that may hold images, in the order in which their images are listed.

    Raises:
        RowError: If an image cannot be used.
    """
    images: dict[str, Image] = {}
    marked = dict(row)
    for name in columns:
        value = row[name]
        if is_image(value):
            marked[name] = _mark(index, name, value, images)
        elif isinstance(value, list) and value and all(map(is_image, value)):
            marked[name] = [_mark(index, name, item, images) for item in value]
    if len(images) > MOST_IMAGES:
        raise RowError(index, f"it has {len(images)} images; at most {MOST_IMAGES} are sent")
    return marked, tuple(images.values())


def is_image(value: object) -> bool:
    """Return True if a value has the form in which `datasets` stores an image."""
    return isinstance(value, Mapping) and value.keys() == {"bytes", "path"}


def _mark(index: int, column: str, value: Mapping[str, Any], images: dict[str, Image]) -> str:
    content = value["bytes"]
    if not isinstance(content, bytes):
        raise RowError(
            index,
            f"column '{column}' names the image {value['path']!r} without its bytes; store the images in the dataset "
            "(`Dataset.to_parquet` does)",
        )
    try:
        image = read_image(content)
    except ImageError as error:
        raise RowError(index, f"the image in column '{column}' cannot be used: {error}") from error
    return images.setdefault(image.sha256, image).mark
