"""Images in questions: named by the hash of their file, and bounded.

A text shows where an image stands by its mark, `<image:SHA256>`, in prompts, in stored rows and in templates alike. Only the marks
of images that come with a request are images; any other text of this form is text.
"""

import base64
import hashlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
"""Media type of each accepted format. SVG is a program for the browser that shows it, so it is none of them."""
LARGEST = 20 << 20
"""Most bytes of a file."""
MOST_PIXELS = 50_000_000
MARK = "<image:"
"""Beginning of each mark."""
_MARK = re.compile(MARK + r"([0-9a-f]{64})>")


def mark_of(sha256: str) -> str:
    """Return the text that stands for an image."""
    return f"{MARK}{sha256}>"


class ImageError(ValueError):
    """A file is no image that a model may be given; the message says why."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
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
        return mark_of(self.sha256)

    @property
    def data_uri(self) -> str:
        """The file as an address, as servers, pages and logs take it."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.content).decode()}"


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


def hashes_at(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield where each mark in a text begins and ends, and its sha256; `regrade.records.messages` knows which of them are images."""
    for found in _MARK.finditer(text):
        yield found.start(), found.end(), found[1]
