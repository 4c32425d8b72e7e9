"""A newcomer's walk through Prefect, in real Chromium at 1,280 and 390 pixels: the first page, a form, a gated run and its result.

The runs are real: `regrade evaluate` against a server with an OpenAI-compatible API, which starts at once.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.answering import answering, said
from tests.browser.pages import PLACE, SCREENSHOTS, Pages, chromium
from tests.command_line import regrade
from tests.prefect_login import LOGIN

pytestmark = [pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(900)]
WIDTHS = (1280, 390)
QUESTIONS = 120
_MESSAGES = ".p-toast, [class*='toast__message'], [role='alert']"


@dataclass(frozen=True)
class Visitor:
    """A person with a browser, who has not logged in."""

    pages: Pages
    shots: Path

    def widen(self, width: int) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.pages.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def sees_no_error(self) -> None:
        """No red message is shown, and the page logged no error."""
        shown = self.pages.browser.find_elements(By.CSS_SELECTOR, _MESSAGES)
        assert [text for text in (element.text for element in shown) if text] == []
        logged = self.pages.browser.get_log("browser")
        assert [line["message"] for line in logged if line["level"] == "SEVERE"] == []

    def sees(self, text: str, width: int) -> None:
        """A text is shown, and within the window."""
        element = self.pages.text(text)
        left, right = self.pages.browser.execute_script(PLACE, element)
        assert left >= 0, text
        assert right <= width, text


@pytest.fixture
def visitor(prefect_server: str, tmp_path: Path) -> Iterator[Visitor]:
    with chromium(tmp_path / "profile") as browser:
        shots = Path(os.environ.get(SCREENSHOTS) or tmp_path / "screenshots")
        yield Visitor(Pages(browser, prefect_server, shots, LOGIN), shots)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_first_page_asks_for_the_login_and_shows_no_red_message(visitor: Visitor, width: int):
    pages = visitor.pages
    visitor.widen(width)
    pages.open("/dashboard")
    visitor.sees("Log in to Prefect", width)
    visitor.sees("PREFECT_API_AUTH_STRING", width)
    visitor.sees_no_error()

    pages.one("//input").send_keys("tests:another", Keys.ENTER)
    pages.text("This is not the login of this server.")
    pages.browser.get_log("browser")  # the browser notes the refused request

    pages.one("//input").clear()
    pages.one("//input").send_keys(LOGIN, Keys.ENTER)
    pages.one('//*[contains(@class, "app-router-view")]')
    pages.open("/deployments")
    pages.text("Deployments")
    visitor.sees_no_error()


@pytest.mark.usefixtures("deployments")
@pytest.mark.parametrize("width", WIDTHS)
def test_a_form_without_model_or_benchmark_is_not_sent(visitor: Visitor, width: int):
    pages = visitor.pages
    pages.log_in(LOGIN)
    visitor.widen(width)
    before = len(pages.runs())
    pages.open_form("evaluate-model")
    visitor.sees_no_error()

    pages.press("Submit")
    pages.text("'model' is a required property")
    pages.fill("Model", "Qwen/Qwen3-8B")
    pages.press("Submit")
    pages.text("Validation failed for field 'benchmarks'")
    assert len(pages.runs()) == before

    pages.choose("Benchmarks", "gsm8k_chat")
    pages.press("Submit")
    pages.until(lambda: len(pages.runs()) > before, 60, "the form is not sent")


def evaluated(folder: Path, server: str, model: str, right: int, *options: str) -> dict[str, Any]:
    """Evaluate a served model that answers the first `right` questions, and return the result."""
    data = folder / "sums.jsonl"
    rows = [{"question": f"What is {n} plus {n}?", "answer": str(2 * n)} for n in range(QUESTIONS)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def reply(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        number = int(body["messages"][-1]["content"].split()[2])
        return 200, said(f"#### {2 * number + (number >= right)}")

    with answering(reply, lambda: {"id": model, "object": "model"}) as address:
        ran = regrade(
            *("evaluate", "--model", model, "--engine", "openai", "--base-url", address),
            *("--dataset.name", "sums", "--dataset.path", data, "--dataset.scorer", "number"),
            *("--answers", folder / "answers", "--json", *options),
            PREFECT_API_URL=server,
            REGRADE_SPOOL=str(folder / "spool"),
        )
    assert ran.code in (0, 1), ran.err  # done, or a regression
    document = ran.document
    assert isinstance(document, dict)
    return document


@pytest.mark.usefixtures("mlflow_database")
@pytest.mark.parametrize("width", WIDTHS)
def test_a_gated_run_shows_its_verdict_and_its_numbers(
    visitor: Visitor, prefect_server: str, tmp_path: Path, width: int
):
    pages = visitor.pages
    evaluated(tmp_path, prefect_server, "org/good", 110, "--promote", "--max-drop", "5")
    evaluated(tmp_path, prefect_server, "org/worse", 60, "--max-drop", "5")
    pages.log_in(LOGIN)
    visitor.widen(width)

    run = max(pages.runs(), key=lambda one: str(one["created"]))
    pages.open(f"/runs/flow-run/{run['id']}")
    visitor.sees(
        "regression: org/worse: sums 50.0 ± 4.6 %", width
    )  # its name, and its message on a wide screen
    if width > 600:
        visitor.sees("regression: sums: -41.67 points", width)
    visitor.sees_no_error()

    for key, texts in (
        ("gate", ("regression: sums", "-41.67", "accepted drop")),
        ("result", ("sums", "50.0", "number")),
    ):
        asked = {"artifacts": {"key": {"any_": [key]}}, "sort": "CREATED_DESC", "limit": 1}
        found = pages.post("/artifacts/filter", asked)
        pages.open(f"/artifacts/artifact/{found[0]['id']}")
        for text in texts:
            visitor.sees(text, width)
        visitor.sees_no_error()
        pages.browser.save_screenshot(str(visitor.shots / f"{key}-{width}.png"))
