"""A report in real Chromium: its style and plots are shown, and nothing in it runs.

`REGRADE_SCREENSHOTS` names a folder for the screenshot; the one in docs/images/ was made by this test.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from regrade.answers.local import LocalRepository
from regrade.pages.report.gathering import gather
from regrade.pages.report.page import html_report
from regrade.pages.report.request import ReportRequest
from tests.browser.pages import SCREENSHOTS, chromium
from tests.builders import row
from tests.stored import publish, score

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
HOSTILE = "</pre><script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\"> \u202eevil"
SUBSETS = ("algebra", "geometry", "number theory", "statistics", "logic")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with chromium(tmp_path_factory.mktemp("chromium")) as page:
        yield page


def rows(share: float, seed: int) -> list[dict[str, Any]]:
    drawn = random.Random(seed)
    made = []
    for n in range(500):
        end = n + 1 if drawn.random() < share * (1 + (n % 5 == 1)) else n
        text = f"Subtract {n} on both sides and check the result.\n\n#### {end}"
        if drawn.random() < 0.03:
            text = f"I cannot decide. {HOSTILE}"
        question = f"What is x if x - {n} = 0? Answer after ####."
        made.append(row(n, text, subset=SUBSETS[n % 5], question=question))
    return made


def test_a_report_is_shown_with_style_and_plots_and_runs_nothing(
    browser: webdriver.Chrome, tmp_path: Path
):
    repository = LocalRepository(tmp_path / "answers")
    for model, share, seed in (("my-team/old-model", 0.1, 1), ("my-team/new-model", 0.16, 2)):
        score(publish(repository, rows(share, seed), model=model, benchmark="sums"))
    request = ReportRequest(
        answers=repository.uri, names=("my-team/new-model",), base="my-team/old-model"
    )
    path = tmp_path / "report.html"
    path.write_text(html_report(gather(request)))
    browser.get(path.as_uri())
    assert browser.title.startswith("my-team/new-model against my-team/old-model")
    images = browser.find_elements(By.TAG_NAME, "img")
    assert len(images) == 3
    assert all(image.get_property("naturalWidth") for image in images)
    verdict = browser.find_element(By.CSS_SELECTOR, ".verdict.right-to-wrong")
    assert verdict.value_of_css_property("display") == "inline-block"  # its own style is allowed
    assert [log for log in browser.get_log("browser") if log["level"] == "SEVERE"] == []
    first = browser.find_element(By.CSS_SELECTOR, "main > details:has(.columns, .text)")
    shots = Path(os.environ.get(SCREENSHOTS, tmp_path))
    browser.get_screenshot_as_file(str(shots / "report.png"))
    browser.find_element(By.CSS_SELECTOR, "main > details:has(.columns, .text) > summary").click()
    assert first.get_attribute("open") is not None
    unparsed = browser.find_elements(By.CSS_SELECTOR, "main > details:has(.columns, .text)")[-1]
    unparsed.find_element(By.TAG_NAME, "summary").click()
    assert "document.title" in unparsed.text
    assert "U+202E" in unparsed.text
    browser.execute_script("arguments[0].scrollIntoView()", first)
    browser.get_screenshot_as_file(str(shots / "report-answers.png"))
    browser.set_window_size(390, 800)
    width = browser.execute_script("return document.documentElement.scrollWidth")
    assert width <= browser.execute_script("return window.innerWidth") + 1
    models = browser.find_elements(By.CSS_SELECTOR, "td:first-child")
    assert min(model.size["width"] for model in models) >= 120  # names can be read
    for name in ("accuracy", "difference"):  # the headline numbers
        cell = browser.find_element(By.CSS_SELECTOR, f'td[data-label="{name}"]')
        assert 0 < cell.location["x"] + cell.size["width"] <= 390
    browser.execute_script("window.scrollTo(0, 0)")
    browser.get_screenshot_as_file(str(shots / "report-narrow.png"))
    browser.set_window_size(1300, 1250)
