"""Programs in answers are run in the sandbox of `--sandbox` by every command that scores, here where there is no bubblewrap."""

from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.cli.main import run
from tests.builders import row
from tests.stored import publish

TESTS = '{"function": "double", "tests": [{"source": "assert double(2) == 4"}]}'
RIGHT = "```python\ndef double(x):\n    return 2 * x\n```"
WRONG = "```python\ndef double(x):\n    return x\n```"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalRepository:
    """Answers of two models, of which the second is right more often."""
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    repository = LocalRepository(tmp_path / "answers")
    for model, texts in (("org/first", (RIGHT, WRONG)), ("org/second", (RIGHT, RIGHT))):
        rows = [row(n, text, doc=TESTS) for n, text in enumerate(texts)]
        publish(repository, rows, model=model, scorers=("code",))
    return repository


def test_two_models_are_compared_without_bubblewrap_if_landlock_is_asked_for(
    repository: LocalRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["compare", "org/first", "org/second", "--answers", repository.uri]
    refused = run(command)
    error = capsys.readouterr().err
    ran = run([*command, "--sandbox", "landlock"])

    assert refused == 2
    assert "--sandbox landlock" in error
    assert ran == 0
    assert "+50.00" in capsys.readouterr().out


def test_a_scorer_is_compared_with_an_earlier_one_in_the_sandbox_that_is_asked_for(
    repository: LocalRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    from regrade.answers.sets import list_sets

    answers: Any = list_sets(repository, repository.head())[0]
    command = ["diff", answers.manifest.answer_set_id, "--from", "exact", "--to", "code"]

    refused = run([*command, "--answers", repository.uri])
    error = capsys.readouterr().err
    ran = run([*command, "--answers", repository.uri, "--sandbox", "landlock"])

    assert refused != 0
    assert "--sandbox landlock" in error
    assert ran == 0, capsys.readouterr().err
    assert "code" in capsys.readouterr().out
