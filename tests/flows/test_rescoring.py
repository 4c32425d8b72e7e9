"""Score stored answers again after a scorer changed, with real MLflow; once with a real Prefect server."""

from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect.logging.handlers import APILogHandler
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.rescore_answers import rescore_answers
from flows.scoring import score_stored
from regrade.answers.local import LocalRepository
from regrade.answers.result import Result
from regrade.answers.sets import AnswerSet
from regrade.jobs.job import ScoringJob
from regrade.scorers.user_functions.files import forget_files
from regrade.scoring.diff import Diff
from regrade.scoring.diff_sides import diff_with_before
from regrade.scoring.source_hash import source_hash
from regrade.settings.errors import DamagedAnswersError, UserError
from regrade.tracking.connection import connect
from tests.builders import row
from tests.command_line import Ran, regrade
from tests.prefect_login import Login
from tests.stored import again, numbers, publish, score_with_an_older_scorer

pytestmark = pytest.mark.usefixtures("mlflow_database")

WRONG = {"value": 0.0, "extracted": "17"}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalRepository:
    monkeypatch.setenv("REGRADE_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("REGRADE_LOGS", str(tmp_path / "logs"))
    return LocalRepository(tmp_path / "answers")


@pytest.fixture
def sums(repository: LocalRepository) -> AnswerSet:
    """Six right answers; an older scorer scored two of them as wrong."""
    answers = publish(repository, numbers(0, 3), numbers(3, 6), total=6)
    score_with_an_older_scorer(answers, lambda one: WRONG if one["sample_id"][-1] in "12" else {})
    return answers


def score(repository: LocalRepository, *arguments: str, code: int = 0) -> Ran:
    ran = regrade("score", "--answers", repository.uri, "--json", *arguments)
    assert ran.code == code, ran.err
    assert "Traceback" not in ran.err
    return ran


def stored(answers: AnswerSet) -> set[str]:
    return {file.label for file in again(answers).readable_scores()[0]}


def changes_of(answers: AnswerSet, prefect_api: str) -> list[str]:
    """Pages on the Prefect server about the changed scores of an answer set."""
    asked = {"artifacts": {"key": {"any_": ["diff"]}}}
    found = httpx.post(f"{prefect_api}/artifacts/filter", json=asked, auth=Login()).json()
    pages = [artifact["data"] for artifact in found]
    return [page for page in pages if answers.manifest.answer_set_id in page]


@pytest.mark.prefect
def test_what_is_stale_is_graded_again_and_what_changed_is_shown_everywhere(
    repository: LocalRepository, sums: AnswerSet, tmp_path: Path, prefect_api: str
) -> None:
    other = publish(repository, numbers(0, 2), benchmark="products")  # never scored: not stale
    before = repository.files(again(sums).revision, "answers")

    ran = score(repository, "--stale")

    (only,) = ran.document["answer_sets"]
    assert only["answer_set_id"] == sums.manifest.answer_set_id
    assert [scoring["scorer"] for scoring in only["scores"]] == ["number"]
    said = " ".join(ran.err.split())
    assert "number v0 -> v3: 66.7 % -> 100.0 %, 2 wrong to right, 0 right to wrong" in said
    assert "number-0-00000000" in stored(sums)  # the old score is kept
    assert len(stored(sums)) == 2
    assert stored(other) == set()
    assert repository.files(again(sums).revision, "answers") == before

    (page,) = changes_of(sums, prefect_api)
    assert "The scorer changed" in page

    with connect(f"sqlite:///{tmp_path / 'mlflow.db'}") as client:
        tags = client.get_run(only["mlflow_run_id"]).data.tags
        artifacts = {artifact.path for artifact in client.list_artifacts(only["mlflow_run_id"])}
    assert tags["regrade.change"].startswith("number v0 -> v3")
    assert "2 wrong to right" in tags["mlflow.note.content"]
    assert "diff.md" in artifacts

    again_ = score(repository, "--stale")
    assert again_.document["answer_sets"] == []
    assert "nothing is stale" in again_.err


@pytest.mark.prefect
def test_answers_without_a_prompt_are_graded_again_like_the_others(
    repository: LocalRepository, sums: AnswerSet, prefect_api: str
) -> None:
    """Imported tables need not have prompts; the examples of what changed show a dash."""
    imported = publish(repository, numbers(0, 3, prompt=None), benchmark="imported")
    score_with_an_older_scorer(imported, lambda _: WRONG)

    with temporary_settings({PREFECT_API_URL: prefect_api}):
        rescore_answers(answers=repository.uri)
        APILogHandler().flush()

    assert len(stored(sums)) == len(stored(imported)) == 2
    (page,) = changes_of(imported, prefect_api)
    assert "prompt:\n\n    -\n" in page


@pytest.mark.parametrize(
    "error", [TypeError("a bug in the page"), DamagedAnswersError("scores/x.parquet", "it is cut.")]
)
def test_a_comparison_that_cannot_be_shown_costs_no_score(
    repository: LocalRepository,
    sums: AnswerSet,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    other = publish(repository, numbers(0, 3), benchmark="products")
    score_with_an_older_scorer(other, lambda _: WRONG)

    def fails_for_sums(scored: Result) -> Diff | None:
        if scored.file.answer_set_id == sums.manifest.answer_set_id:
            raise error
        return diff_with_before(scored)

    caplog.set_level("INFO", "regrade.score")
    monkeypatch.setattr("tasks.score.diff_with_before", fails_for_sums)
    evaluation = score_stored(ScoringJob(answers=repository.uri, stale=True))

    assert {result.benchmark for result in evaluation.answer_sets} == {"sums", "products"}
    assert len(stored(sums)) == len(stored(other)) == 2
    (warning,) = (
        record for record in caplog.records if "not compared with the previous" in record.message
    )
    assert sums.manifest.answer_set_id in warning.message
    assert str(error) in warning.message
    assert bool(warning.exc_info) == isinstance(error, TypeError)  # a bug is not hidden
    assert any(
        "products" in record.message and "v0 -> v3" in record.message for record in caplog.records
    )


def test_a_function_in_a_file_is_graded_again_where_the_file_is_named_and_told_of_otherwise(
    repository: LocalRepository, tmp_path: Path
) -> None:
    answers = publish(repository, numbers(0, 2))
    file = tmp_path / "mine.py"
    file.write_text("def lenient(text: str, target: str) -> bool:\n    return True\n")
    named = ("--scorer", f"{file}:lenient")
    try:
        score(repository, *named)
        assert "nothing is stale" in score(repository, "--stale", *named).err
        forget_files()
        source_hash.cache_clear()
        file.write_text(file.read_text().replace("True", "False"))

        left = score(repository, "--stale")
        found = score(repository, "--stale", *named)
    finally:
        forget_files()
        source_hash.cache_clear()

    said = " ".join(left.err.split())
    assert left.document["answer_sets"] == []
    assert "scorings by 'lenient' are left as they are" in said
    assert "regrade score --stale --scorer path/to/file.py:lenient" in said
    (only,) = found.document["answer_sets"]
    assert [scoring["metrics"]["accuracy"] for scoring in only["scores"]] == [0.0]
    assert len(stored(answers)) == 2


def test_a_scorer_that_does_not_fit_one_set_costs_the_others_nothing(
    repository: LocalRepository, sums: AnswerSet
) -> None:
    capitals = publish(repository, [row(0, "Paris", target="Paris")], benchmark="capitals")

    ran = score(repository, "--scorer", "number", code=2)

    assert "number" in {label.split("-")[0] for label in stored(sums) - {"number-0-00000000"}}
    (refused,) = ran.document["not_scored"]
    assert refused["answer_set"] == capitals.manifest.answer_set_id
    assert "'Paris'" in refused["reason"]
    assert "1 of 2 scorings are done. Not done:" in ran.err


def test_a_set_whose_scorer_is_not_installed_costs_the_others_nothing(
    repository: LocalRepository, sums: AnswerSet
) -> None:
    other = publish(repository, numbers(0, 2), benchmark="products", scorers=("theirs",))

    ran = score(repository, code=2)

    assert len(stored(sums)) == 2
    (missing,) = ran.document["not_scored"]
    assert missing["answer_set"] == other.manifest.answer_set_id
    assert "Unknown scorer 'theirs'" in missing["reason"]


def test_a_damaged_set_costs_the_others_nothing_and_intact_says_so_in_every_number(
    repository: LocalRepository, sums: AnswerSet, tmp_path: Path
) -> None:
    other = publish(repository, numbers(0, 2), benchmark="products")
    shard = sums.manifest.shards[1].name
    (repository.folder / sums.folder / shard).unlink()

    ran = score(repository, code=1)
    assert len(stored(other)) == 1
    assert stored(sums) == {"number-0-00000000"}
    assert shard in ran.document["not_scored"][0]["reason"]
    with pytest.raises(DamagedAnswersError, match=shard):  # not: nothing is stale
        score_stored(ScoringJob(answers=repository.uri, stale=True))

    intact = score(repository, "--intact", "--benchmark", "sums")
    (result,) = intact.document["answer_sets"]
    (one,) = result["scores"]
    assert one["intact_only"] == "intact only: 1 of 2 shards"
    assert not one["headline"]
    assert "intact only: 1 of 2 shards" in intact.err
    assert any(label.endswith("-intact-1-of-2") for label in stored(sums))
    assert "intact only: 1 of 2 shards" in (repository.folder / "README.md").read_text()

    with connect(f"sqlite:///{tmp_path / 'mlflow.db'}") as client:
        tags = client.get_run(one["mlflow_run_id"]).data.tags
    assert tags["regrade.intact_only"] == "intact only: 1 of 2 shards"


@pytest.mark.parametrize(
    ("filters", "says"),
    [
        ({"since": date(2999, 1, 1)}, "no answer set matches `since=2999-01-01`."),
        ({"until": date(2001, 1, 1)}, "no answer set matches `until=2001-01-01`."),
        ({"model": "nobody", "benchmark": "sums"}, "`model=nobody` and `benchmark=sums`."),
    ],
)
def test_filters_that_fit_nothing_say_so(
    tmp_path: Path, filters: dict[str, Any], says: str
) -> None:
    publish(LocalRepository(tmp_path / "answers"), numbers(0, 2))

    with pytest.raises(UserError, match=says):
        score_stored(ScoringJob(answers=str(tmp_path / "answers"), **filters))


def test_a_single_answer_set_is_verified(repository: LocalRepository, sums: AnswerSet) -> None:
    name = sums.manifest.shards[0].name
    (repository.folder / sums.folder / name).unlink()
    damaged = regrade("verify", sums.manifest.answer_set_id[:6], "--answers", repository.uri)
    assert damaged.code == 1
    assert name in damaged.out.splitlines()[0]
    assert "--intact" in damaged.err
