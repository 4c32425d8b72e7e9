"""Scripts that need published questions: named where they are, left out without them."""

from pathlib import Path

import pytest

from perf.measuring import data_folder


@pytest.fixture(autouse=True)
def no_folder_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERF_DATA", raising=False)


def test_a_script_without_its_questions_says_what_it_needs_and_does_not_fail(
    capsys: pytest.CaptureFixture[str],
):
    with pytest.raises(SystemExit) as ended:
        data_folder(None, "mmlu")
    assert ended.value.code == 0
    assert "make perf PERF_DATA=FOLDER" in capsys.readouterr().out


def test_the_option_goes_before_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "mmlu").mkdir()
    monkeypatch.setenv("PERF_DATA", str(tmp_path))
    assert data_folder(None, "mmlu") == tmp_path / "mmlu"
    (tmp_path / "other/mmlu").mkdir(parents=True)
    assert data_folder(tmp_path / "other", "mmlu") == tmp_path / "other/mmlu"


def test_a_named_folder_that_is_not_there_is_an_error(tmp_path: Path):
    with pytest.raises(SystemExit, match="gone' is no folder"):
        data_folder(tmp_path / "gone")
