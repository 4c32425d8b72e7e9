"""Use the Prefect UI in headless Chromium."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from tests.prefect_login import LOGIN, Login

SCREENSHOTS = "REGRADE_SCREENSHOTS"
"""Environment variable with the folder for screenshots, instead of the folder of the test."""
PLACE = "const box = arguments[0].getBoundingClientRect(); return [box.left, box.right]"
"""Script that returns the left and right end of an element."""
PATIENCE = 120.0
"""Longest wait for a page, in seconds; long enough for a slow machine."""
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--hide-scrollbars",
)


@contextmanager
def chromium(home: Path, *flags: str) -> Iterator[webdriver.Chrome]:
    """A browser with an empty profile."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        missing = (
            "Chromium or its driver is not installed: apt-get install chromium chromium-driver"
        )
        if os.geteuid() == 0 and shutil.which("apt-get"):
            pytest.fail(f"{missing} (`infra/install.sh --dev` does it)")
        pytest.skip(missing)
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, *flags, f"--user-data-dir={home}", "--window-size=1300,1250"):
        options.add_argument(flag)
    page = webdriver.Chrome(options=options, service=Service(driver))
    page.set_page_load_timeout(PATIENCE)
    try:
        yield page
    finally:
        page.quit()


class Pages:
    """The pages of a Prefect server in a browser."""

    def __init__(self, browser: webdriver.Chrome, api: str, folder: Path, login: str) -> None:
        self.browser, self.api, self.login = browser, api, Login(login)
        self.address = api.removesuffix("/api")
        self.shots = Path(os.environ.get(SCREENSHOTS) or folder / "screenshots")
        self.shots.mkdir(parents=True, exist_ok=True)

    def widen(self, width: int) -> None:
        """Be a window of this width, or the screen of a phone."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def sees(self, text: str, width: int) -> None:
        """A text is shown, and within a window of this width."""
        left, right = self.browser.execute_script(PLACE, self.text(text))
        assert 0 <= left < right <= width, text

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return httpx.post(f"{self.api}{path}", json=body, auth=self.login, timeout=60).json()

    def log_in(self, login: str) -> None:
        """Log in as a person does; the page remembers the login."""
        self.open("/")
        self.one('//input[@type="password"]').send_keys(login, Keys.ENTER)
        self.text("Dashboard")

    def open_form(self, deployment: str) -> None:
        found = httpx.get(
            f"{self.api}/deployments/name/{deployment}/{deployment}", auth=self.login, timeout=60
        )
        self.open(f"/deployments/deployment/{found.json()['id']}/run")
        self.input("Model")

    def open(self, path: str) -> None:
        self.browser.get(f"{self.address}{path}")

    def one(self, xpath: str) -> WebElement:
        """Wait for the first displayed element that matches, and return it."""

        def shown(browser: webdriver.Chrome) -> WebElement | None:
            try:
                found = browser.find_elements(By.XPATH, xpath)
                return next((element for element in found if element.is_displayed()), None)
            except StaleElementReferenceException:
                return None

        element = WebDriverWait(self.browser, PATIENCE).until(shown, f"nothing fits {xpath}")
        assert isinstance(element, WebElement)
        return element

    def text(self, text: str) -> WebElement:
        """The innermost element that contains a text."""
        return self.one(f'//*[contains(., "{text}")][not(*[contains(., "{text}")])]')

    def field(self, label: str) -> str:
        """XPath of a field of the form."""
        header = f'./div[contains(@class, "header")]//span[.="{label}" or .="{label} (Optional)"]'
        return f'//div[contains(concat(" ", @class, " "), " schema-form-property ")][{header}]'

    def input(self, label: str) -> WebElement:
        return self.one(f"{self.field(label)}//*[self::input or self::textarea]")

    def choose(self, label: str, value: str) -> None:
        """Choose from a drop-down list."""
        Select(self.one(f"{self.field(label)}//select[option]")).select_by_visible_text(value)

    def switch(self, label: str) -> None:
        """Turn a switch on."""
        switch = f'{self.field(label)}//*[@role="switch"]'
        self.click(switch)
        self.one(f'{switch}[@aria-checked="true"]')

    def unfold(self, label: str, choice: str) -> None:
        """Press a button of a field."""
        self.click(f'{self.field(label)}//button[contains(., "{choice}")]')

    def fill(self, label: str, value: object) -> None:
        self.input(label).send_keys(Keys.CONTROL, "a")
        self.input(label).send_keys(str(value))

    def press(self, label: str) -> None:
        """Press a button when it is enabled."""
        self.click(f'//button[normalize-space(.)="{label}"]')

    def click(self, xpath: str) -> None:
        def clicked(browser: webdriver.Chrome) -> bool:
            element = self.one(xpath)
            browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
            try:
                element.click()
            except WebDriverException:  # something still moves above it
                return False
            return True

        WebDriverWait(self.browser, PATIENCE).until(clicked, f"{xpath} cannot be pressed")

    def runs(self) -> list[dict[str, Any]]:
        return list(self.post("/flow_runs/filter", {"sort": "EXPECTED_START_TIME_DESC"}))

    def until(self, met: Callable[[], object], seconds: float, problem: str) -> None:
        WebDriverWait(self.browser, seconds, 0.3).until(lambda _: met(), problem)

    def shot(self, name: str, height: int = 1000) -> Path:
        """Take a screenshot."""
        self.browser.set_window_size(1300, height)
        path = self.shots / f"{name}.png"
        self.browser.save_screenshot(str(path))
        return path


@contextmanager
def opened(api: str, folder: Path, login: str = LOGIN) -> Iterator[Pages]:
    """The pages of a server in a new browser, which has logged in."""
    with chromium(folder / "profile") as browser:
        pages = Pages(browser, api, folder, login)
        pages.log_in(login)
        yield pages
        pages.shot("last")  # what was there when a test failed
