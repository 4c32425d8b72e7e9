"""Images in a report: in the page as `data:` within a bound, words in Markdown, and only what is verified."""

import base64
import re
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.pages.report import examples
from regrade.pages.report.gathering import Report, gather
from regrade.pages.report.page import html_report, markdown_report
from regrade.pages.report.request import ReportRequest
from tests.answers.test_images import HOSTILE, replaced
from tests.pictures import image, publish_showing, showing
from tests.stored import publish, score

WRONG = "I see a square.\n#### 0"
RED, BLUE = image(11), image(12, "WEBP", size=(1200, 30))


def reported(repository: LocalRepository) -> Report:
    return gather(ReportRequest(answers=repository.uri))


def images_in(page: str) -> list[tuple[str, bytes]]:
    """Media type and content of the images of questions, which stand in texts."""
    found = re.findall(r'<img src="data:([a-z/]+);base64,([^"]*)" alt="\[image', page)
    return [(kind, base64.b64decode(data)) for kind, data in found]


def test_the_page_holds_the_images_and_markdown_names_them(
    repository: LocalRepository, tmp_path: Path
) -> None:
    rows = [showing(1, RED, BLUE, text=f"{WRONG} {RED.mark}")]
    score(publish_showing(repository, tmp_path / "spool", rows, [RED, BLUE]))

    report = reported(repository)
    page, text = html_report(report), markdown_report(report)

    assert images_in(page) == [("image/png", RED.content), ("image/webp", BLUE.content)]
    assert re.search(r"Before <img [^>]*> and <img [^>]*> after\.", page)
    assert f"&lt;image:{RED.sha256}&gt;" in page  # in the answer, a model's own text
    named = f"[image {RED.sha256[:8]}: PNG, 3 x 2 pixels]"
    assert f"Before {named} and [image {BLUE.sha256[:8]}: WEBP, 1,200 x 30 pixels] after." in text
    assert "data:" not in text


def test_a_report_holds_no_more_images_than_have_room(
    repository: LocalRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = [image(number) for number in range(4)]
    largest = max(len(image.content) for image in shown)
    large = image(99, size=(900, 900))
    rows = [showing(n, one, text=WRONG) for n, one in enumerate((large, *shown), 1)]
    score(publish_showing(repository, tmp_path / "spool", rows, [large, *shown]))
    monkeypatch.setattr(examples, "LARGEST_EMBEDDED", largest)
    monkeypatch.setattr(examples, "EMBEDDED_BYTES", 3 * largest)

    page = html_report(reported(repository))

    assert images_in(page) == [("image/png", image.content) for image in shown[:3]]
    assert page.count("too large for this page]") == 2
    assert f"[image {large.sha256[:8]}: PNG, 900 x 900 pixels, too large for this page]" in page


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_that_is_not_the_image_of_its_hash_is_in_no_report(
    repository: LocalRepository, tmp_path: Path, kind: str
) -> None:
    rows = [showing(1, RED, text=WRONG)]
    answers = publish_showing(repository, tmp_path / "spool", rows, [RED])
    score(answers)
    replaced(answers, HOSTILE[kind][0], RED.sha256)

    page = html_report(reported(repository))

    assert images_in(page) == []
    assert f"Before [image {RED.sha256[:8]} is damaged] after." in page


def test_in_place_of_an_image_that_was_not_copied_its_source_is_named(
    repository: LocalRepository,
) -> None:
    score(publish(repository, [showing(7, RED, text=WRONG)]))

    report = reported(repository)

    words = "[image of local@bbbbbbbbbbbb, row 7, not copied]"
    assert f"Before {words} after." in html_report(report)
    assert words in markdown_report(report)
