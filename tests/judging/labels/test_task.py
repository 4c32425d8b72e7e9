"""Answers that people can label."""

from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.settings.errors import SettingsError
from tests.comparing.sides import answer
from tests.judged import judge, open_task
from tests.stored import again


def test_answers_that_judges_graded_are_labelled_by_their_verdicts(tmp_path: Path) -> None:
    answers = answer(LocalRepository(tmp_path), "org/a", right=3, total=6, scorers=("judge",))
    with pytest.raises(SettingsError, match="regrade judge .* --judge MODEL"):
        open_task(answers)
    runs = [judge(answers, lambda *_: "A", model=model) for model in ("org/one", "org/two")]

    ids = ".*".join(f"'{run.manifest.answer_set_id}'" for run in runs)
    with pytest.raises(SettingsError, match=f"Name the answer set of a judge run instead.*{ids}"):
        open_task(again(answers))

    assert len(open_task(runs[0]).items) == 6
