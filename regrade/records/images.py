"""Images in questions: named by the hash of their file, and bounded.

A text shows where an image stands by its mark, `<image:SHA256>`, in prompts, in stored rows and in templates alike. Only the marks
of images that come with a request are images; any other text of this form is text.
"""

import hashlib
import io
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
"""Media type of each accepted format. SVG is a program for the browser that shows it, so it is none of them."""
LARGEST = 20 << 20
"""Most bytes of a file."""
MOST_PIXELS = 50_000_000
MARK = "<image:"
"""Beginning of each mark."""
_MARK = re.compile(MARK + r"([0-9a-f]{64})>")


class ImageError(ValueError):
    """A file is no image that a model may be given; the message says why."""


@dataclass(frozen=True, slots=True)
class Image:
    """Image of a question."""

    sha256: str
    """Hash of the file's bytes."""
    media_type: str
    """As the content says, whatever name the file had."""
    width: int
    height: int
    content: bytes = field(repr=False, compare=False)
    """The file, unchanged."""

    @property
    def mark(self) -> str:
        """Text that stands for the image."""
        return f"<image:{self.sha256}>"


def read_image(content: bytes) -> Image:
    """Return the image in a file's bytes.

    Raises:
        ImageError: If it is no PNG, JPEG or WebP, or too large.
    """
    import PIL.Image  # noqa: PLC0415 - most runs have no images

    if len(content) > LARGEST:
        raise ImageError(f"it has {len(content):,} bytes; at most {LARGEST:,} are sent to a model")
    try:
        with PIL.Image.open(io.BytesIO(content), formats=tuple(MEDIA_TYPES)) as image:
            kind, (width, height) = image.format or "", image.size
    except PIL.Image.DecompressionBombError as error:
        raise ImageError(str(error)) from error
    except (OSError, ValueError, SyntaxError) as error:
        raise ImageError("it is no PNG, JPEG or WebP file") from error
    if width * height > MOST_PIXELS:
        raise ImageError(
            f"it has {width:,} x {height:,} pixels; at most {MOST_PIXELS:,} are sent to a model"
        )
    digest = hashlib.sha256(content).hexdigest()
    return Image(digest, MEDIA_TYPES[kind], width, height, content)


def split_at_images(text: str, images: Sequence[Image]) -> list[str | Image]:
    """Return the parts of a text, in order: images where their marks stand, and the texts between them."""
    by_hash = {image.sha256: image for image in images}
    parts = split_at_marks(text, by_hash)
    return [by_hash[part] if is_mark else part for part, is_mark in parts]


def split_at_marks(text: str, hashes: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text, in order: hashes of images where their marks stand, with True, and the texts between them.

    Args:
        text: Any text.
        hashes: sha256 of its images; other marks are text.
    """
    begin = 0
    for found in _MARK.finditer(text) if hashes else ():
        if found[1] not in hashes:
            continue
        if found.start() > begin:
            yield text[begin : found.start()], False
        yield found[1], True
        begin = found.end()
    if begin < len(text):
        yield text[begin:], False


def with_short_marks(text: str, hashes: Collection[str]) -> str:
    """Return a text in which `[image 0123abcd]` stands for each of its images, to be read where none can be shown."""
    parts = split_at_marks(text, hashes)
    return "".join(f"[image {part[:8]}]" if is_mark else part for part, is_mark in parts)
