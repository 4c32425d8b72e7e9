"""`regrade list`: damaged files are named, and hide nothing else."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from regrade.answers.aliases import move_alias
from regrade.answers.local import LocalRepository
from regrade.answers.manifest import Stopped
from regrade.judging.labels.sheet import write_sheet
from regrade.records.specification import ModelIdentity
from tests.builders import session
from tests.command_line import Ran, regrade
from tests.comparing.sides import answer
from tests.judged import fill, open_task, read_in, rows_of
from tests.stored import again, commit_manifest, numbers, publish, score, score_with_an_older_scorer


def show(repository: LocalRepository, *options: str) -> Ran:
    return regrade("list", "--answers", repository.uri, *options)


def test_a_repository_without_answers_says_so(repository: LocalRepository):
    repository.commit({"README.md": b"hello"}, "first", parent=None)

    ran = show(repository)
    assert (ran.code, "No answer sets." in ran.out) == (0, True)


def listed(repository: LocalRepository, *options: str) -> list[dict[str, Any]]:
    ran = show(repository, "--json", *options)
    assert ran.code == 0, ran.err
    sets: list[dict[str, Any]] = ran.document["answer_sets"]
    return sets


def test_a_stopped_set_is_told_from_a_broken_off_run_and_is_not_to_be_scored(
    repository: LocalRepository, tmp_path: Path
):
    broken_off = answer(repository, "team/good", right=2, total=3, declared=10).manifest
    asked = answer(repository, "team/bad", right=0, total=3, declared=10)
    stopped = Stopped(verdict="regression", questions=2, of=10, baseline="b" * 16)
    ended = session(stopped=stopped).model_dump(mode="json")
    commit_manifest(asked, sessions=[ended])
    early, page = again(asked).manifest, tmp_path / "report.md"

    told = {entry["answer_set_id"]: entry["stopped"] for entry in listed(repository)}
    shown = regrade("show", early.answer_set_id, "--answers", repository.uri, "--json").document
    regrade("report", early.answer_set_id, page, "--answers", repository.uri)

    assert told == {broken_off.answer_set_id: None, early.answer_set_id: stopped.model_dump()}
    assert (shown["total"], shown["expected"], shown["stopped"]) == (3, 10, stopped.model_dump())
    assert early.answered == "3 of 10 answers, stopped after 2 of 10: regression"
    rest = "`regrade evaluate` without `--stop-when-sure` asks the rest"
    assert f"not scored: {early.answered}. {rest}" in page.read_text()
    assert "regrade score" not in page.read_text()
    assert broken_off.to_score() == f"`regrade score --answer-set {broken_off.answer_set_id}`"


def test_the_aliases_of_a_set_are_listed_and_a_damaged_one_is_named(repository: LocalRepository):
    good = answer(repository, "team/good", right=2, total=4)
    answer(repository, "team/bad", right=1, total=4)
    for alias in ("last-good", "baseline"):
        move_alias(repository, alias, [good])

    aliases = {entry["model"]: entry["aliases"] for entry in listed(repository)}
    assert aliases == {"team/good": ["baseline", "last-good"], "team/bad": []}
    repository.commit({"aliases/odd.json": b"{"}, "damage", parent=repository.head())
    ran = show(repository)
    assert ran.code == 1
    assert "alias baseline, alias last-good" in ran.out
    assert "left out: aliases/odd.json" in ran.err.replace("'", "")


def test_a_damaged_table_of_scores_whose_labels_calibrate_it_is_named(
    repository: LocalRepository, tmp_path: Path
):
    answers = answer(repository, "team/good", right=30, total=40)
    score(answers)
    task = open_task(again(answers))
    sheet = tmp_path / "labels.csv"
    write_sheet(sheet, [task], task.sample(20, 0), 0, show_verdict=False)
    fill(sheet, [row | {"label": "right"} for row in rows_of(sheet)])
    read_in(sheet, task)
    [file] = again(answers).scores()
    table = f"{answers.scores_folder}/{file.label}.parquet"
    repository.commit({table: b"PAR1"}, "damage", parent=repository.head())

    ran = show(repository)

    assert (ran.code, "uncalibrated" in ran.out) == (1, True)
    (line,) = [line for line in ran.err.splitlines() if "left out" in line]
    assert table in line


def test_filters_and_order(repository: LocalRepository):
    for model, right in (("team/good", 4), ("team/bad", 1), ("other/middle", 2)):
        score(answer(repository, model, right=right, total=4))

    def models(*options: str) -> list[str]:
        return [entry["model"] for entry in listed(repository, *options)]

    assert models("--sort", "accuracy") == ["team/good", "other/middle", "team/bad"]
    assert models("--sort", "accuracy", "--ascending")[0] == "team/bad"
    assert sorted(models("--model", "TEAM/")) == ["team/bad", "team/good"]
    assert models("--sort", "model") == ["other/middle", "team/bad", "team/good"]
    wrong = show(repository, "--benchmark", "sum")
    assert (wrong.code, "`--benchmark sum` should be one of sums." in wrong.err) == (2, True)
    nobody = show(repository, "--model", "nobody")
    assert nobody.code == 0
    assert nobody.out.startswith(
        "No answer set matches `--model nobody`. Models: other/middle, team/bad, team/good.\n"
        "0 of 3 answer sets in "
    )


def test_two_folders_of_one_name_are_two_models(repository: LocalRepository):
    for digit in "ab":
        model = ModelIdentity(name="final", kind="local", revision=digit * 64)
        publish(repository, numbers(0, 3), model=model)

    shown = show(repository).out

    assert "final@aaaaaaaa" in shown
    assert "final@bbbbbbbb" in shown


def test_of_two_versions_of_a_scorer_the_current_one_is_marked(repository: LocalRepository):
    answers = publish(repository, numbers(0, 3))
    score(answers)
    for day, source_hash in ((1, "a" * 8), (2, "b" * 8)):
        when = datetime(2026, 2, day, tzinfo=UTC)
        changed = {"scorer": "close", "source_hash": source_hash, "scored_at": when, "version": 1}
        score_with_an_older_scorer(again(answers), lambda _: {}, **changed)
    lines = show(repository).out.splitlines()
    rows = {mark: line for line in lines for mark in ("older", "current") if mark in line}
    assert "older version aaaaaaaa" in rows["older"]
    assert "current version bbbbbbbb" in rows["current"]
    (entry,) = listed(repository)
    current = {score["source_hash"]: score["current"] for score in entry["scores"]}
    assert (current.pop("a" * 8), set(current.values())) == (False, {True})


def test_a_set_that_was_not_computed_alike_says_so(repository: LocalRepository):
    answers = publish(repository, numbers(0, 3), model="good")
    changes = {"mixed": ["runner: V1 against V2"], "computed": {"not_sent": ["temperature 0.0"]}}
    known = session().model_dump(mode="json")
    commit_manifest(answers, sessions=[known | changes])

    out = " ".join(show(repository).out.split())
    assert "not scored, mixed: runner: V1 against V2, refused by the server: temperature 0.0" in out
