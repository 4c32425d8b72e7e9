"""The viewer in real Chromium, with answers of real models: keys, layout, hostile texts, pages without script.

`REGRADE_SCREENSHOTS` names a folder for the screenshots; those of docs/images/ were made by this test.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from regrade.answers.local import LocalRepository
from tests.browser.pages import SCREENSHOTS, chromium
from tests.builders import row
from tests.command_line import DATA, regrade
from tests.pages.viewer.reading import served
from tests.stored import publish, score

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
GENERATIONS = DATA / "generations"
HOSTILE = "</pre><script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\"> \u202eevil\u200b \x1b[5m"


@dataclass(frozen=True)
class Shown:
    """A browser, and the address of a viewer."""

    browser: webdriver.Chrome
    address: str
    shots: Path

    def open(self, path: str, width: int = 1300, height: int = 900, *, dark: bool = False) -> None:
        mobile = width < 600
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.browser.get(f"{self.address}{path}")

    def press(self, *keys: str) -> None:
        self.browser.find_element(By.TAG_NAME, "body").send_keys(*keys)

    def until(self, met: Any, problem: str) -> None:
        WebDriverWait(self.browser, 30, 0.1).until(lambda _: met(), problem)

    def press_until(self, key: str, part: str) -> None:
        """Press a key that leads to another page."""
        self.press(key)
        self.until(lambda: part in self.path, f"{key} leads to {self.path}, not to {part}")

    def press_back(self, key: str, path: str) -> None:
        """Press a key that leads to a page, whose path is part of other paths."""
        self.press(key)
        self.until(lambda: self.path == path, f"{key} leads to {self.path}, not to {path}")

    @property
    def path(self) -> str:
        return self.browser.current_url.removeprefix(self.address)

    def one(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def shot(self, name: str) -> None:
        self.browser.save_screenshot(str(self.shots / f"{name}.png"))

    def is_wider_than_its_window(self) -> bool:
        script = "return document.documentElement.scrollWidth > window.innerWidth + 1"
        return bool(self.browser.execute_script(script))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Answers of real models, imported and scored, and a hostile set."""
    if not GENERATIONS.exists():
        pytest.skip(f"needs the stored generations in {GENERATIONS}")
    home = tmp_path_factory.mktemp("viewer")
    answers = home / "answers"
    for source in ("zeroeval-gsm", "mmlu-pro"):
        imported = regrade("import", GENERATIONS / source, "--answers", answers)
        assert imported.code == 0, imported.err
    scored = regrade("score", "--answers", answers, "--tracking-uri", f"sqlite:///{home}/mlflow.db")
    assert scored.code == 0, scored.err
    repository = LocalRepository(answers)
    rows = [row(1, f"{HOSTILE}\n#### 1", question=HOSTILE), row(2, "<think>hm</think>\n#### 3")]
    hostile = publish(repository, rows, model="<b>evil</b>", benchmark="hostile")
    score(hostile)
    return answers


@pytest.fixture(scope="module")
def shown(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    shots = Path(os.environ.get(SCREENSHOTS) or tmp_path_factory.mktemp("screenshots"))
    shots.mkdir(parents=True, exist_ok=True)
    profile = tmp_path_factory.mktemp("profile")
    with served(LocalRepository(folder)) as address, chromium(profile) as browser:
        yield Shown(browser, address, shots)


def set_of(shown: Shown, model: str) -> str:
    """Path of the list of a model's answers."""
    shown.open("/")
    link = next(element for element in shown.all("a.open") if element.text == model)
    return str(link.get_attribute("href")).removeprefix(shown.address)


LLAMA, MIXTRAL = "meta-llama/Meta-Llama-3-8B-Instruct", "mistralai/Mixtral-8x7B-Instruct-v0.1"


def test_keys_lead_from_the_list_to_the_answers_and_back(shown: Shown):
    path = set_of(shown, LLAMA)
    shown.open(path)
    shown.press_until("w", "verdict=wrong")
    shown.press("j")
    shown.press("j")
    shown.press("k")
    assert len(shown.all("tr.chosen")) == 1
    number = shown.one("tr.chosen a.open").text
    shown.press_until(Keys.ENTER, "/answer?")
    assert f"question {number}" in shown.one(".headline").text
    assert "verdict=wrong" in shown.path
    before = shown.path
    shown.press("j")
    shown.until(lambda: shown.path != before, "j stays")
    shown.press("k")
    shown.until(lambda: shown.path == before, "k does not lead back")
    shown.press_until("b", f"{path}?verdict=wrong")
    shown.press("/", "eggs", Keys.ENTER)
    shown.until(lambda: "q=eggs" in shown.path, "the search is not sent")
    shown.press("?")
    assert shown.one("#help").get_attribute("open")
    shown.press_back("x", path)
    shown.press_until("u", "verdict=unparsed")
    shown.press_back("x", path)
    shown.press_until("n", "page=2")
    shown.press_back("p", path)
    shown.one("a.open").click()
    shown.press_until("m", "format=markdown")
    shown.press_back("h", "/")


def test_keys_of_a_comparison_show_what_became_worse_and_what_differs(shown: Shown):
    llama, mixtral = (set_of(shown, model).split("/")[-1] for model in (LLAMA, MIXTRAL))
    shown.open(f"/compare/{mixtral}/{llama}")
    shown.press_until("w", "kind=right+to+wrong")
    shown.press("j")
    shown.press_until(Keys.ENTER, "/question?")
    shown.press_until("d", "view=difference")
    shown.press_until("b", "kind=right+to+wrong")
    shown.press_back("w", f"/compare/{mixtral}/{llama}")
    shown.press_until("u", "kind=wrong+to+right")


def test_keys_in_a_field_are_text(shown: Shown):
    path = set_of(shown, LLAMA)
    shown.open(path)
    shown.press("/")
    shown.browser.switch_to.active_element.send_keys("wujk?")
    assert shown.path == path
    assert shown.one("[data-search]").get_attribute("value") == "wujk?"


def test_hostile_texts_do_nothing(shown: Shown):
    path = set_of(shown, "<b>evil</b>")
    shown.open(path)
    assert "taken" not in shown.browser.title
    for suffix in ("", "&format=markdown"):
        shown.open(f"{path}/answer?sample=sample-00001&number=0{suffix}")
        assert "taken" not in shown.browser.title
        assert not shown.all(".text img, .text script, .text a")
        assert len(shown.all(".hid")) >= 3
    shown.open(f"{path}/answer?sample=sample-00001&number=0", height=330)
    shown.shot("view-hostile")
    assert [
        entry
        for entry in shown.browser.get_log("browser")
        if "Content Security" in entry["message"]
    ] == []  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("width", [1300, 800, 360])
def test_no_page_is_wider_than_its_window(shown: Shown, width: int):
    llama, mixtral = set_of(shown, LLAMA), set_of(shown, MIXTRAL)
    versus = f"/compare/{mixtral.split('/')[-1]}/{llama.split('/')[-1]}"
    pages = ["/", llama, set_of(shown, "Meta-Llama-3-8B"), versus]
    for path in (llama, versus):
        shown.open(path)
        pages.append(str(shown.one("a.open").get_attribute("href")).removeprefix(shown.address))
    for path in pages:
        shown.open(path, width)
        assert not shown.is_wider_than_its_window(), f"{path} at {width}"


_BEFORE = "return getComputedStyle(arguments[0], '::before').content"


def test_the_circles_that_choose_two_sets_have_their_letters_in_a_narrow_window(shown: Shown):
    for width, letters in (
        (1300, ["none", "none"]),
        (390, ["A", "B"]),
    ):  # A wide one has them in its head.
        shown.open("/", width)
        labels = shown.all(".ab label")[:2]
        before = [shown.browser.execute_script(_BEFORE, label) for label in labels]
        assert [text.replace('"', "").strip() for text in before] == letters
        for label in labels:
            assert 0 <= label.location["x"] < label.location["x"] + label.size["width"] <= width


def test_dark_and_light_have_enough_contrast(shown: Shown):
    path = set_of(shown, LLAMA)
    script = """
    const luminance = (text) => {
      const [r, g, b] = text.match(/[0-9.]+/g).map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ratio = (one, other) => {
      const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
      return (high + 0.05) / (low + 0.05);
    };
    const page = getComputedStyle(document.body).backgroundColor;
    return [...document.querySelectorAll(".dim, a, td, .verdict, mark, .q, .a")].map((node) => {
      const style = getComputedStyle(node);
      const own = style.backgroundColor.startsWith("rgba(0, 0, 0, 0") ? page : style.backgroundColor;
      return [ratio(style.color, own), node.className || node.tagName];
    }).filter(([value]) => value < 4.5).map(([value, name]) => `${name} ${value.toFixed(2)}`);
    """
    for dark in (False, True):
        shown.open(path, dark=dark)
        assert sorted(set(shown.browser.execute_script(script))) == []
        background = shown.browser.execute_script(
            "return getComputedStyle(document.body).backgroundColor"
        )
        assert (background == "rgb(255, 255, 255)") is not dark


def test_pages_can_be_read_without_script(shown: Shown):
    path = set_of(shown, LLAMA)
    shown.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        shown.open(path)
        next(chip for chip in shown.all("a.chip") if chip.text.startswith("wrong")).click()
        assert "verdict=wrong" in shown.path
        shown.one("[data-search]").send_keys("house", Keys.ENTER)
        shown.until(lambda: "q=house" in shown.path, "the form is not sent")
        shown.one("a.open").click()
        assert shown.all("mark")
    finally:
        shown.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_screenshots_of_every_page(shown: Shown):
    llama, mixtral = set_of(shown, LLAMA), set_of(shown, MIXTRAL)
    mmlu = set_of(shown, "Meta-Llama-3-8B")
    versus = f"/compare/{mixtral.split('/')[-1]}/{llama.split('/')[-1]}?kind=right+to+wrong"
    shown.open("/?benchmark=gsm&sort=accuracy", height=330)
    shown.shot("view-sets")
    shown.open(f"{mmlu}?verdict=wrong", height=780)
    shown.shot("view-answers")
    assert len(shown.all("aside.subsets tr")) == 14
    shown.open(f"{mmlu}?verdict=wrong", dark=True)
    shown.shot("view-answers-dark")
    shown.open(f"{mmlu}?verdict=wrong", 400, 850)
    shown.shot("view-answers-narrow")
    shown.open(f"{llama}?verdict=wrong", height=670)
    shown.one("a.open").click()
    shown.shot("view-answer")
    assert shown.one("mark").text
    shown.open(versus, height=760)
    shown.shot("view-comparison")
    shown.one("a.open").click()
    shown.open(f"{shown.path}&view=difference", height=720)
    shown.shot("view-difference")
    assert shown.all(".diff")
