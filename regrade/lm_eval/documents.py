"""Documents of tasks as JSON text, from which scoring reads them later.

A task's functions must see the same document in both cases. A document that JSON would change is therefore refused:
JSON has no tuples, bytes or dates, and its keys are texts. An image is stored as the text that stands for it: scoring reads texts.
"""

import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from regrade.settings.errors import SettingsError

Keep = Callable[[bytes], str]
"""Keeps the file of an image, and returns the text that stands for it; raises ValueError if it is none for a model."""


def no_images(content: bytes) -> str:  # noqa: ARG001 - as `Keep`
    """Keep no image."""
    raise ValueError("no image can be kept here")


_FILE = "regrade_file"
"""Attribute of a decoded image: the bytes of its file."""


def document_text(
    document: Mapping[str, Any], task: str, doc_id: int, keep: Keep = no_images
) -> str:
    """Return a document as JSON text.

    Args:
        document: Document of a task, after its `process_docs`.
        task: Name of the task, for messages.
        doc_id: Number of the document, for messages.
        keep: Keeps its images.

    Raises:
        SettingsError: If JSON cannot hold a value of the document. The message names the first such value.
    """
    document = {name: _marked(value, task, doc_id, keep) for name, value in document.items()}
    unfit = next(_unfit(document, ""), None)
    if unfit is not None:
        raise SettingsError(
            f"Task '{task}' cannot be run: document {doc_id} has {unfit}, which JSON cannot hold, so that its answers "
            "could not be scored later."
        )
    return json.dumps(document, ensure_ascii=False)


def document_of(text: str) -> dict[str, Any]:
    """Return the document of `document_text`."""
    document: dict[str, Any] = json.loads(text)
    return document


def _unfit(value: object, place: str) -> Iterator[str]:
    """Yield the places and types of values that JSON would change."""
    if value is None or type(value) in (
        bool,
        int,
        float,
        str,
    ):  # Python's json has NaN and infinity
        return
    if type(value) is list:
        for index, member in enumerate(value):
            yield from _unfit(member, f"{place}[{index}]")
    elif type(value) is dict:
        for key, member in value.items():
            if type(key) is not str:
                yield f"the key {key!r} in '{place or '.'}'"
                return
            yield from _unfit(member, f"{place}.{key}" if place else key)
    else:
        yield f"a value of type '{type(value).__name__}' in '{place or '.'}'"


# Images in documents.


@contextmanager
def kept_files() -> Iterator[None]:
    """Make the images that `datasets` decodes remember their files, by whose hash they are known on every machine."""
    import datasets

    original = datasets.Image.decode_example

    def decode(feature: Any, value: Any, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - of datasets
        picture = original(feature, value, *given, **named)
        if isinstance(value, Mapping) and value.get("bytes") is not None:
            setattr(picture, _FILE, value["bytes"])
        return picture

    datasets.Image.decode_example = decode
    try:
        yield
    finally:
        datasets.Image.decode_example = original


def images_of(shown: object, task: str, doc_id: int, keep: Keep) -> tuple[str, ...]:
    """Return what stands for the images that `doc_to_image` gives: one, or lists of them; what is null is left out.

    Raises:
        SettingsError: If it is something else, or cannot be sent to a model.
    """
    if shown is None:
        return ()
    if isinstance(shown, list | tuple):
        return tuple(mark for one in shown for mark in images_of(one, task, doc_id, keep))
    if not _is_picture(shown):
        raise _not_shown(task, doc_id, f"gives {shown!r:.60} where an image should be")
    return (_kept(shown, task, doc_id, keep),)


def _is_picture(value: object) -> bool:
    """Return True if a value is an image of Pillow, without importing it."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)


def _kept(picture: Any, task: str, doc_id: int, keep: Keep = no_images) -> str:  # noqa: ANN401 - Pillow's image
    """Keep an image as it is in the dataset; as PNG if the task's code changed it, or its format is not sent to models."""
    file, buffer = getattr(picture, _FILE, None), io.BytesIO()
    if file is not None:
        with suppress(ValueError):
            return keep(file)
    try:
        known = picture.mode in ("1", "L", "LA", "P", "RGB", "RGBA")
        (picture if known else picture.convert("RGB")).save(buffer, "PNG")
        return keep(buffer.getvalue())
    except (OSError, ValueError) as error:
        raise _not_shown(task, doc_id, f"has an image that cannot be used: {error}") from error


def _marked(value: object, task: str, doc_id: int, keep: Keep) -> object:
    """Return a value of a document with texts in the place of images."""
    if _is_picture(value):
        return _kept(value, task, doc_id, keep)
    if type(value) is list:
        return [_marked(one, task, doc_id, keep) for one in value]
    if type(value) is dict:
        return {name: _marked(one, task, doc_id, keep) for name, one in value.items()}
    return value


def _not_shown(task: str, doc_id: int, problem: str) -> SettingsError:
    return SettingsError(
        f"lm-evaluation-harness' task '{task}' cannot be run: document {doc_id} {problem}."
    )
