"""Images and conversations in real Chromium: shown in the viewer and in a report, and nothing hostile in them is."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from regrade.answers.local import LocalRepository
from regrade.answers.parquet import parquet_bytes
from regrade.pages.report.gathering import gather
from regrade.pages.report.page import html_report
from regrade.pages.report.request import ReportRequest
from regrade.records.columns import IMAGE_SCHEMA
from regrade.records.messages import Part, PartedMessage
from regrade.records.trajectory import call_of, trajectory_text
from tests.answers.test_images import with_shard
from tests.browser.pages import chromium
from tests.builders import row
from tests.pages.viewer.reading import served
from tests.pictures import SVG, header_of, image, publish_showing, showing
from tests.stored import publish, score

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
KINDS = ("PNG", "JPEG", "WEBP")
GOOD = [image(n, kind, size=(1600, 40 + n)) for n, kind in enumerate(KINDS)]
NAMED = [image(number) for number in range(10, 13)]
"""Images under whose hashes the store holds an SVG, a file of too many pixels, and another image."""
ATTACK = (
    "</pre><img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
)
FALSE = (SVG, header_of(60_000, 60_000), image(20, size=(9, 9)).content)


@dataclass(frozen=True)
class Shown:
    """A browser, and a viewer of one set with a question of good images, and one of hostile ones."""

    browser: webdriver.Chrome
    address: str
    folder: Path
    answer_set_id: str
    talks_id: str

    def widths(self) -> list[int]:
        """Natural widths of the images in texts, once all of them were loaded or refused; 0 for those that were refused."""
        script = "return [...document.querySelectorAll('.text img')].map(i => [i.complete, i.naturalWidth])"
        self.browser.execute_script(
            "document.querySelectorAll('details').forEach(d => d.open = true);"
            "document.querySelectorAll('img').forEach(i => i.loading = 'eager')"
        )

        def loaded(browser: webdriver.Chrome) -> bool:
            return all(complete for complete, _ in browser.execute_script(script))

        WebDriverWait(self.browser, 60, 0.1).until(loaded)
        return [width for _, width in self.browser.execute_script(script)]

    def open(self, path: str) -> None:
        self.browser.get(f"{self.address}/sets/{self.answer_set_id}/{path}")

    def open_talk(self, sample: str, width: int) -> None:
        """Open an answer of the conversations, with all that is folded."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.browser.get(f"{self.address}/sets/{self.talks_id}/answer?sample={quote(sample)}")
        self.browser.execute_script(
            "document.querySelectorAll('details').forEach(d => d.open = true)"
        )

    def texts(self, selector: str) -> list[str]:
        return [element.text for element in self.browser.find_elements(By.CSS_SELECTOR, selector)]

    def refused_by_policy(self) -> list[str]:
        logs = [str(entry["message"]) for entry in self.browser.get_log("browser")]  # type: ignore[no-untyped-call]
        return [message for message in logs if "Content Security" in message]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    home = tmp_path_factory.mktemp("pictures")
    repository = LocalRepository(home / "answers")
    rows = [showing(1, *GOOD, text="#### 0"), showing(2, *NAMED, text="#### 0")]
    answers = publish_showing(repository, home / "spool", rows, [*GOOD, *NAMED])
    score(answers)
    contents = [*(image.content for image in GOOD), *FALSE]
    hashes = [image.sha256 for image in (*GOOD, *NAMED)]
    stored = [
        {"sha256": sha256, "image": {"bytes": content, "path": f"{sha256}.png"}}
        for sha256, content in zip(hashes, contents, strict=True)
    ]
    with_shard(answers, parquet_bytes(pa.Table.from_pylist(stored, schema=IMAGE_SCHEMA)), hashes)
    talks = publish(repository, talked(), benchmark="talks")
    with served(repository) as address, chromium(tmp_path_factory.mktemp("profile")) as browser:
        ids = (kept.manifest.answer_set_id for kept in (answers, talks))
        yield Shown(browser, address, repository.folder, *ids)


def talked() -> list[dict[str, Any]]:
    """The second turn of a conversation, and what an agent did."""
    chat = [("system", "Be short."), ("user", "One?"), ("assistant", "1"), ("user", ATTACK)]
    prompt = json.dumps([{"role": role, "content": text} for role, text in chat])
    call = call_of("c", "paint", {"colour": ATTACK})
    did = [
        PartedMessage("assistant", (Part("reasoning", "Hm."), Part("text", "Wait."), call)),
        PartedMessage("tool", (Part("tool_result", ATTACK, "c", "paint"),)),
        PartedMessage("assistant", (Part("text", "Done."),)),
    ]
    return [
        row(1, prompt=prompt, prompt_kind="messages") | {"sample_id": "q#2/2"},
        row(2, "Done.") | {"trajectory": trajectory_text(did)},
    ]


@pytest.mark.parametrize("width", [1300, 360])
def test_a_conversation_is_shown_turn_by_turn_as_text(shown: Shown, width: int) -> None:
    shown.open_talk("q#2/2", width)
    turns = shown.texts(".prompt .turn")
    shown.open_talk("sample-00002", width)
    did = shown.texts(".conversation .turn")

    roles = [text.splitlines()[0].lower() for text in (*turns, *did)]
    assert roles == ["system", "user", "assistant", "user", "assistant", "tool", "assistant"]
    assert ATTACK in turns[3]
    assert ATTACK in did[1]
    assert [
        summary in text
        for summary, text in zip(("call of paint", "result of paint", "Done."), did, strict=True)
    ] == [True] * 3
    wider = "return document.documentElement.scrollWidth > window.innerWidth + 1"
    assert not shown.browser.execute_script(wider)
    assert shown.browser.find_elements(By.CSS_SELECTOR, ".turn img, .turn script") == []
    assert "taken" not in shown.browser.title
    assert shown.refused_by_policy() == []


def test_the_images_of_a_prompt_are_loaded_and_fit_the_page(shown: Shown) -> None:
    shown.open("answer?sample=sample-00001&number=0")

    assert shown.widths() == [1600, 1600, 1600] * 2  # in the question and in the prompt
    wider = "return document.documentElement.scrollWidth > window.innerWidth + 1"
    assert not shown.browser.execute_script(wider)
    sources = [i.get_attribute("src") for i in shown.browser.find_elements(By.TAG_NAME, "img")]
    assert all(str(source).startswith(f"{shown.address}/sets/") for source in sources)
    assert shown.refused_by_policy() == []


def test_no_hostile_file_in_the_store_is_shown(shown: Shown) -> None:
    shown.open("answer?sample=sample-00002&number=0")

    assert shown.widths() == [0, 0, 0] * 2
    assert "taken" not in shown.browser.title
    for picture in NAMED:
        shown.open(f"image/{picture.sha256}")
        assert shown.browser.title.startswith("Damaged answers")
        assert shown.browser.find_elements(By.CSS_SELECTOR, "svg, img") == []


def test_a_report_shows_the_images_without_a_network_and_no_hostile_file(
    shown: Shown, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text(html_report(gather(ReportRequest(answers=str(shown.folder)))))
    shown.browser.get(path.as_uri())

    assert shown.widths() == [1600, 1600, 1600]
    assert shown.browser.page_source.count("is damaged]") == 3
    assert "taken" not in shown.browser.title
    assert shown.refused_by_policy() == []
