from datetime import date
from typing import Any

import pytest

from regrade.jobs.job import EvaluationJob, GenerationJob, ScoringJob, make_job
from regrade.settings.errors import SettingsError


@pytest.mark.parametrize("given", [{}, {"answers": None}, {"answers": ""}])
def test_answers_go_to_the_default_repository_unless_one_is_named(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    monkeypatch.delenv("REGRADE_ANSWERS", raising=False)
    assert make_job(ScoringJob, given).answers == "answers"
    monkeypatch.setenv("REGRADE_ANSWERS", "elsewhere")
    assert make_job(ScoringJob, given).answers == "elsewhere"
    assert make_job(ScoringJob, {"answers": "here"}).answers == "here"


SHARED = {"model": "org/tiny", "benchmarks": ("gsm8k",), "share": "1/2"}


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        (ScoringJob, {"since": "2026-09-02", "until": "2026-09-01"}, "-02` is after `until="),
        (ScoringJob, {"stale": True, "force": True}, "`force` scores all answers again, `stale`"),
        (ScoringJob, {"scorers": "number"}, "`scorers` is unknown. Did you mean 'scorer'?"),
        (GenerationJob, SHARED | {"reuse": {"fresh": True}}, "run them once without `share`"),
        (GenerationJob, SHARED | {"reuse": {"heal": True}}, "run them once without `share`"),
        (GenerationJob, SHARED | {"share": "3/2"}, "share '3/2' should be"),
        (EvaluationJob, SHARED | {"gate": {}}, "needs the whole result"),
    ],
)
def test_parameters_that_do_not_fit_are_told_in_one_line(
    kind: Any, given: dict[str, Any], says: str
) -> None:
    with pytest.raises(SettingsError) as error:
        make_job(kind, given)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_the_same_day_is_a_period() -> None:
    day = date(2026, 9, 1)
    assert make_job(ScoringJob, {"since": day, "until": day}).since == day


def test_the_files_of_questions_may_hold_their_tests():
    given = {"model": "m", "benchmarks": ("livecodebench",), "scoring": {"sandbox": "landlock"}}
    sources = [{"benchmark": "livecodebench", "path": "tests.parquet"}]
    job = make_job(EvaluationJob, given | {"sources": sources})
    assert job.scoring_options.sandbox == "landlock"
    assert [source.path for source in job.scoring_options.sources] == ["tests.parquet"]
