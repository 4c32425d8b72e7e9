"""Addresses in the viewer: only for the repository that it shows."""

import logging
from pathlib import Path

import pytest

from regrade.settings.errors import SettingsError
from regrade.settings.view_address import comparison_address, view_address, view_prefix

URL = "https://eval.example.org/view"
SET = "1f0c6a2b1f0c6a2b"


@pytest.fixture
def team(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("REGRADE_VIEW_URL", f"{URL}/")
    monkeypatch.setenv("REGRADE_ANSWERS", "hf://datasets/team/answers")
    return "hf://datasets/team/answers"


def test_without_a_prefix_there_is_no_address():
    assert view_address("hf://datasets/team/answers", SET) is None


def test_a_set_an_answer_and_a_comparison_have_addresses(team: str):
    assert view_address(team, SET) == f"{URL}/sets/{SET}"
    answer = view_address(team, SET, sample_id="a/b?c&d e", repeat=3, revision="f" * 40)
    assert answer == f"{URL}/sets/{SET}/answer?sample=a%2Fb%3Fc%26d+e&number=3&at={'f' * 40}"
    assert comparison_address((team, team), SET, "b" * 16) == f"{URL}/compare/{SET}/{'b' * 16}"
    question = comparison_address((team, team), SET, "b" * 16, sample_id="x", revision="c" * 40)
    assert question == f"{URL}/compare/{SET}/{'b' * 16}/question?sample=x&at={'c' * 40}"


@pytest.mark.usefixtures("team")
def test_answers_of_another_repository_have_no_address():
    other = "hf://datasets/team/other"
    assert view_address(other, SET) is None
    assert comparison_address(("hf://datasets/team/answers", other), SET, SET) is None


def test_a_folder_is_the_default_under_each_of_its_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("REGRADE_VIEW_URL", URL)
    monkeypatch.chdir(tmp_path)
    assert view_address(str(tmp_path / "answers"), SET) is not None
    assert view_address(str(tmp_path / "others"), SET) is None


@pytest.mark.parametrize("url", ["eval.example.org", "ftp://x", "https://", "https://x/?a=b"])
def test_a_prefix_that_is_no_address_is_named_and_costs_no_result(
    team: str, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("REGRADE_VIEW_URL", url)
    with pytest.raises(SettingsError, match="expected an address such as"):
        view_prefix()
    with caplog.at_level(logging.WARNING):
        assert view_address(team, SET) is None
    assert "REGRADE_VIEW_URL" in caplog.text
