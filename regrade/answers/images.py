"""Images that questions show, kept beside the answers: `images/<benchmark>/`, each once, by the sha256 of its file.

`index.json` lists the shards, and the images in each, so that a commit reads no shard to know what is there. Both are
untrusted input: an image is returned only if its hash is right and its content is one of the accepted formats.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from regrade.answers.base import Repository
from regrade.answers.content import content_hashes
from regrade.answers.documents import FileProblem, fetch_listed, find_json, json_bytes
from regrade.answers.parquet import ParquetReader, parquet_bytes
from regrade.records.columns import IMAGE_SCHEMA, SCHEMA_VERSION
from regrade.records.images import Image, ImageError, read_image
from regrade.records.specification import IMAGES, path_component
from regrade.settings import StrictModel
from regrade.settings.errors import DamagedAnswersError

INDEX = "index.json"
SHARD_BYTES = 64 * 2**20
"""Images in a shard, in bytes; a single one may exceed it."""
SMALL_BYTES = 2**20
"""Size from which a shard is not small."""
SMALL_SHARDS = 10
"""Least number of small shards to join; fewer cost nothing."""
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ImageShard(StrictModel):
    """A Parquet file of `IMAGE_SCHEMA`; its name includes the hash of its content."""

    name: str = Field(pattern=r"^part-[0-9]{5}-[0-9a-f]{8}\.parquet$")
    bytes: int = Field(ge=1)
    sha256: Digest
    images: tuple[Digest, ...] = Field(min_length=1)
    """sha256 of the image in each row."""


class ImageIndex(StrictModel):
    """Contents of `index.json`."""

    schema_version: int = SCHEMA_VERSION
    shards: tuple[ImageShard, ...] = ()


class StoredImages:
    """Images of a benchmark at one revision of a repository."""

    def __init__(self, repository: Repository, revision: str, benchmark: str) -> None:
        """Name them; nothing is read yet.

        Args:
            repository: Repository to read from.
            revision: 40-digit revision; "" before the first commit.
            benchmark: Name of the benchmark.
        """
        self.folder = f"{IMAGES}/{path_component(benchmark)}"
        self._repository, self._revision = repository, revision
        self._readers: dict[str, ParquetReader] = {}

    @cached_property
    def index(self) -> ImageIndex:
        """List of the shards; empty if the benchmark has no images here.

        Raises:
            DamagedAnswersError: If it is no such list.
        """
        path = f"{self.folder}/{INDEX}"
        what = "a list of images"
        found = find_json(self._repository, path, self._revision, ImageIndex, what)
        return found or ImageIndex()

    @cached_property
    def places(self) -> Mapping[str, tuple[ImageShard, int]]:
        """Shard and row of each image, by its sha256; errors as in `index`."""
        return {
            sha256: (shard, row)
            for shard in reversed(self.index.shards)
            for row, sha256 in enumerate(shard.images)
        }

    def __contains__(self, sha256: object) -> bool:
        return sha256 in self.places

    def read(self, sha256: str) -> Image:
        """Return an image that the list has.

        Raises:
            DamagedAnswersError: If its shard is damaged, or holds something else in its place.
        """
        shard, row = self.places[sha256]
        return _checked(self._path(shard), sha256, self.reader(shard).take([row]).to_pylist()[0])

    def reader(self, shard: ImageShard) -> ParquetReader:
        """Return the reader of a shard, after checking the shard against the list.

        Raises:
            DamagedAnswersError: If it does not match.
        """
        known = self._readers.get(shard.sha256)
        if known is not None and known.local.is_file():
            return known
        path = self._path(shard)
        fetch = fetch_listed(self._repository, self._revision, path, shard.bytes, shard.sha256)
        reader = ParquetReader(path, fetch(), IMAGE_SCHEMA, IMAGE_SCHEMA.names, fetch)
        if reader.rows != len(shard.images):
            raise DamagedAnswersError(
                path, f"the list says {len(shard.images):,} images, the file has {reader.rows:,}."
            )
        self._readers[shard.sha256] = reader
        return reader

    def _path(self, shard: ImageShard) -> str:
        return f"{self.folder}/{shard.name}"

    def problems(self) -> Iterator[FileProblem]:
        """Yield the problems of the list, of its shards, and of each image in them."""
        try:
            shards = self.index.shards
        except DamagedAnswersError as error:
            yield FileProblem(error.path, error.problem)
            return
        seen: set[str] = set()
        for shard in shards:
            path = self._path(shard)
            if twice := seen.intersection(shard.images):
                yield FileProblem(path, f"image '{min(twice)[:8]}' is in another shard, too.")
            seen.update(shard.images)
            try:
                rows = (r for batch in self.reader(shard).batches() for r in batch.to_pylist())
                for sha256, row in zip(shard.images, rows, strict=True):
                    _checked(path, sha256, row)
            except DamagedAnswersError as error:
                yield FileProblem(error.path, error.problem)
        listed = {f"{self.folder}/{INDEX}", *(self._path(shard) for shard in shards)}
        for path in sorted(self._repository.files(self._revision, self.folder).keys() - listed):
            yield FileProblem(path, "the list of images does not have it.")


def _checked(path: str, sha256: str, row: Mapping[str, Any]) -> Image:
    """Return the image in a row of a shard.

    Raises:
        DamagedAnswersError: If it is another one, or none.
    """
    content = (row["image"] or {}).get("bytes")
    if row["sha256"] != sha256 or not isinstance(content, bytes):
        raise DamagedAnswersError(path, f"it should have image '{sha256[:8]}' in its row.")
    try:
        image = read_image(content)
    except ImageError as error:
        raise DamagedAnswersError(path, f"image '{sha256[:8]}' cannot be used: {error}.") from error
    if image.sha256 != sha256:
        raise DamagedAnswersError(
            path, f"image '{sha256[:8]}' has the content of '{image.sha256[:8]}'."
        )
    return image


def image_tables(images: Iterable[Image]) -> Iterator[pa.Table]:
    """Yield tables of `IMAGE_SCHEMA`, each of a shard, with these images."""
    rows: list[dict[str, object]] = []
    size = 0
    for image in images:
        if rows and size + len(image.content) > SHARD_BYTES:
            yield pa.Table.from_pylist(rows, schema=IMAGE_SCHEMA)
            rows, size = [], 0
        name = f"{image.sha256}.{image.media_type.removeprefix('image/')}"
        rows.append({"sha256": image.sha256, "image": {"bytes": image.content, "path": name}})
        size += len(image.content)
    if rows:
        yield pa.Table.from_pylist(rows, schema=IMAGE_SCHEMA)


def hashes_in(file: Path) -> list[str]:
    """Return the sha256 of the images in a file that this machine wrote."""
    return [str(sha256) for sha256 in pq.read_table(file, columns=["sha256"])["sha256"].to_pylist()]


# Add images in a commit.


@dataclass(slots=True)
class AddedImages:
    """Changes of a benchmark's images in a commit."""

    files: dict[str, Path | bytes] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    """Small shards whose images are in a larger one now."""


def added_images(stored: StoredImages, files: Sequence[Path]) -> AddedImages:
    """Return what a commit has to change so that the repository has the images in some files; nothing if it has them.

    Args:
        stored: Images at the head.
        files: Files of `IMAGE_SCHEMA` that this machine wrote.

    Raises:
        DamagedAnswersError: If the list of stored images is damaged.
    """
    added = AddedImages()
    if not files:
        return added
    shards = list(stored.index.shards)
    known = set(stored.places)
    new: list[tuple[Path | bytes, list[str]]] = []
    for file in files:
        hashes = hashes_in(file)
        lacking = [sha256 for sha256 in hashes if sha256 not in known]
        known.update(lacking)
        if len(lacking) == len(hashes):  # committed as it is
            new.append((file, lacking))
        elif lacking:
            table = pq.read_table(file, schema=IMAGE_SCHEMA)
            places = pa.array([hashes.index(sha256) for sha256 in lacking])
            new.append((parquet_bytes(table.take(places)), lacking))
    if not new:
        return added
    joined, together = _joined(stored, [shard for shard in shards if shard.bytes < SMALL_BYTES])
    if together is not None:
        new.append((parquet_bytes(together), [name for shard in joined for name in shard.images]))
        added.removed += [f"{stored.folder}/{shard.name}" for shard in joined]
    number = 1 + max((int(shard.name[5:10]) for shard in shards), default=-1)
    shards = [shard for shard in shards if shard not in joined]
    for content, hashes in new:
        size, sha256, _ = content_hashes(content)
        name = f"part-{number:05d}-{sha256[:8]}.parquet"
        shards.append(ImageShard(name=name, bytes=size, sha256=sha256, images=tuple(hashes)))
        added.files[f"{stored.folder}/{name}"] = content
        number += 1
    added.files[f"{stored.folder}/{INDEX}"] = json_bytes(ImageIndex(shards=tuple(shards)))
    return added


def _joined(
    stored: StoredImages, small: Sequence[ImageShard]
) -> tuple[list[ImageShard], pa.Table | None]:
    """Return small shards that become one, and their rows; none if they are few. Damaged ones stay, for `verify` to name."""
    tables: list[tuple[ImageShard, pa.Table]] = []
    for shard in small if len(small) >= SMALL_SHARDS else ():
        with suppress(DamagedAnswersError):
            tables.append((shard, stored.reader(shard).table()))
    if len(tables) < 2:
        return [], None
    together = pa.concat_tables([table for _, table in tables]).combine_chunks()
    return [shard for shard, _ in tables], together
