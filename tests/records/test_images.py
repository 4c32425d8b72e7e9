import hashlib

import pytest

from regrade.records import images
from regrade.records.images import ImageError, read_image
from tests.pictures import file_of, header_of


@pytest.mark.parametrize(
    ("kind", "media_type"), [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/webp")]
)
def test_an_image_has_the_type_of_its_content_and_the_hash_of_its_bytes(
    kind: str, media_type: str
) -> None:
    content = file_of(kind)

    image = read_image(content)

    assert (image.media_type, image.width, image.height) == (media_type, 3, 2)
    assert image.sha256 == hashlib.sha256(content).hexdigest()
    assert image.content == content
    assert str(content) not in repr(image)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x89PNG",
        b'<svg xmlns="http://www.w3.org/2000/svg"/>',
        file_of("GIF"),
        file_of("TIFF"),
    ],
    ids=["empty", "cut", "svg", "gif", "tiff"],
)
def test_a_file_of_another_kind_is_refused(content: bytes) -> None:
    with pytest.raises(ImageError, match="no PNG, JPEG or WebP"):
        read_image(content)


@pytest.mark.parametrize(("width", "height"), [(10_000, 5_001), (60_000, 60_000)])
def test_an_image_with_too_many_pixels_is_refused_before_they_are_decoded(
    width: int, height: int
) -> None:
    with pytest.raises(ImageError, match="pixels"):
        read_image(header_of(width, height))


def test_a_file_with_too_many_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    content = file_of("PNG")
    monkeypatch.setattr(images, "LARGEST", len(content) - 1)

    with pytest.raises(ImageError, match=f"it has {len(content)} bytes"):
        read_image(content)
