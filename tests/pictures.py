"""Images, and rows that show them."""

import io
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from regrade.answers.base import Repository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from regrade.records.images import Image, read_image
from tests.builders import description, row, session

SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg"><script>parent.document.title="taken"</script></svg>'
)


def file_of(kind: str, color: str = "red", size: tuple[int, int] = (3, 2)) -> bytes:
    buffer = io.BytesIO()
    PIL.Image.new("RGB", size, color).save(buffer, kind)
    return buffer.getvalue()


def header_of(width: int, height: int) -> bytes:
    """PNG of one pixel that claims to have more."""
    content = bytearray(file_of("PNG", size=(1, 1)))
    content[16:24] = struct.pack(">II", width, height)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    return bytes(content)


def image(number: int, kind: str = "PNG", size: tuple[int, int] = (3, 2)) -> Image:
    """An image of its own for each number."""
    return read_image(file_of(kind, f"rgb({number % 256}, {number // 256}, 0)", size))


def showing(number: int, *images: Image, text: str = "", **changes: Any) -> dict[str, Any]:
    """A row whose question shows images between words."""
    shown = "Before " + " and ".join(image.mark for image in images) + " after."
    hashes = [image.sha256 for image in images]
    return row(number, text, question=shown, prompt=shown, images=hashes) | changes


def publish_showing(
    repository: Repository,
    folder: Path,
    rows: Sequence[dict[str, Any]],
    images: Iterable[Image],
    *,
    total: int | None = None,
    **changes: Any,
) -> AnswerSet:
    """Publish rows with their images, as a run does.

    Args:
        repository: Target.
        folder: Folder of the spool.
        rows: Rows.
        images: Images of all questions.
        total: Number of questions, if it is another than that of the rows.
        changes: As `description`'s.
    """
    described = description(total or len(rows), images="stored", **changes)
    with Spool(folder) as spool:
        begin_session(spool, repository.uri, described, session())
        spool.keep_images(images)
        spool.append(rows)
        published = publish_answers(repository, spool, described)
    assert published is not None
    return published


def picture_questions(path: Path, images: Sequence[Image]) -> Path:
    """Write a dataset with a question about each image, whose answer is its number."""
    rows = [
        {
            "question": f"Which number is picture {number}?",
            "picture": {"bytes": one.content, "path": None},
            "answer": str(number),
        }
        for number, one in enumerate(images)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def picture_config(folder: Path, address: str, images: Sequence[Image], **changes: object) -> Path:
    """Write a configuration file of questions about images, and of a server that answers them."""
    dataset = {
        "name": "pictures",
        "path": str(picture_questions(folder / "pictures.parquet", images)),
        "prompt": "{{ picture }} {{ question }}",
        "format": "chat",
        "scorer": "number",
    }
    engine = {"kind": "openai", "base_url": address, "max_concurrency": 1, "max_retries": 1}
    path = folder / "pictures.yaml"
    path.write_text(yaml.safe_dump({"datasets": [dataset | changes], "engine": engine}))
    return path
