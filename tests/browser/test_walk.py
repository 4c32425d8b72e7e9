"""A newcomer's walk through Prefect, in real Chromium at 1,280 and 390 pixels: the first page, a form, a gated run and its result.

The runs are real: `regrade evaluate` against a server with an OpenAI-compatible API, which starts at once.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.answering import answering, said
from tests.browser.pages import Pages, chromium
from tests.command_line import regrade
from tests.prefect_login import LOGIN

pytestmark = [pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(900)]
WIDTHS = (1280, 390)
QUESTIONS = 120
_MESSAGES = ".p-toast, [class*='toast__message'], [role='alert']"


@pytest.fixture
def visitor(prefect_server: str, tmp_path: Path) -> Iterator[Pages]:
    """The pages in the browser of a person who has not logged in."""
    with chromium(tmp_path / "profile") as browser:
        yield Pages(browser, prefect_server, tmp_path, LOGIN)


def no_error_is_seen(pages: Pages) -> None:
    """No red message is shown, and the page logged no error."""
    shown = pages.browser.find_elements(By.CSS_SELECTOR, _MESSAGES)
    assert [text for text in (element.text for element in shown) if text] == []
    logged = pages.browser.get_log("browser")
    assert [line["message"] for line in logged if line["level"] == "SEVERE"] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_first_page_asks_for_the_login_and_shows_no_red_message(visitor: Pages, width: int):
    visitor.widen(width)
    visitor.open("/dashboard")
    visitor.sees("Log in to Prefect", width)
    visitor.sees("PREFECT_API_AUTH_STRING", width)
    no_error_is_seen(visitor)

    visitor.one("//input").send_keys("tests:another", Keys.ENTER)
    visitor.text("This is not the login of this server.")
    visitor.browser.get_log("browser")  # the browser notes the refused request

    visitor.one("//input").clear()
    visitor.one("//input").send_keys(LOGIN, Keys.ENTER)
    visitor.one('//*[contains(@class, "app-router-view")]')
    visitor.open("/deployments")
    visitor.text("Deployments")
    no_error_is_seen(visitor)


@pytest.mark.usefixtures("deployments")
@pytest.mark.parametrize("width", WIDTHS)
def test_a_form_without_model_or_benchmark_is_not_sent(visitor: Pages, width: int):
    visitor.log_in(LOGIN)
    visitor.widen(width)
    before = len(visitor.runs())
    visitor.open_form("evaluate-model")
    no_error_is_seen(visitor)

    visitor.press("Submit")
    visitor.text("'model' is a required property")
    visitor.fill("Model", "Qwen/Qwen3-8B")
    visitor.press("Submit")
    visitor.text("Validation failed for field 'benchmarks'")
    assert len(visitor.runs()) == before

    visitor.choose("Benchmarks", "gsm8k_chat")
    visitor.press("Submit")
    visitor.until(lambda: len(visitor.runs()) > before, 60, "the form is not sent")


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
    visitor: Pages, prefect_server: str, tmp_path: Path, width: int
):
    evaluated(tmp_path, prefect_server, "org/good", 110, "--promote", "--max-drop", "5")
    evaluated(tmp_path, prefect_server, "org/worse", 60, "--max-drop", "5")
    visitor.log_in(LOGIN)
    visitor.widen(width)

    run = max(visitor.runs(), key=lambda one: str(one["created"]))
    visitor.open(f"/runs/flow-run/{run['id']}")
    # Its name, and its message on a wide screen.
    visitor.sees("regression: org/worse: sums 50.0 ± 4.6 %", width)
    if width > 600:
        visitor.sees("regression: sums: -41.67 points", width)
    no_error_is_seen(visitor)

    for key, texts in (
        ("gate", ("regression: sums", "-41.67", "accepted drop")),
        ("result", ("sums", "50.0", "number")),
    ):
        asked = {"artifacts": {"key": {"any_": [key]}}, "sort": "CREATED_DESC", "limit": 1}
        found = visitor.post("/artifacts/filter", asked)
        visitor.open(f"/artifacts/artifact/{found[0]['id']}")
        for text in texts:
            visitor.sees(text, width)
        no_error_is_seen(visitor)
        visitor.browser.save_screenshot(str(visitor.shots / f"{key}-{width}.png"))
