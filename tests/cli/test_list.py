"""`regrade list`: damaged files are named, and hide nothing else."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.aliases import move_alias
from regrade.answers.local import LocalRepository
from regrade.cli.main import run
from regrade.records.specification import ModelIdentity
from tests.builders import session
from tests.comparing.sides import answer
from tests.golden.inputs import generated
from tests.stored import (
    again,
    commit_manifest,
    numbers,
    publish,
    score,
    score_with_an_older_scorer,
)


def test_a_repository_without_answers_says_so(
    repository: LocalRepository, capfd: pytest.CaptureFixture[str]
):
    repository.commit({"README.md": b"hello"}, "first", parent=None)

    assert run(["list", "--answers", repository.uri]) == 0
    assert "No answer sets." in capfd.readouterr().out


def listed(
    repository: LocalRepository, capfd: pytest.CaptureFixture[str], *options: str
) -> list[dict[str, Any]]:
    assert run(["list", "--answers", repository.uri, "--json", *options]) == 0
    sets: list[dict[str, Any]] = json.loads(capfd.readouterr().out)["answer_sets"]
    return sets


def test_sets_are_told_apart_by_what_differs_in_their_settings(
    repository: LocalRepository, capfd: pytest.CaptureFixture[str]
):
    answer(repository, "team/good", right=2, total=4)
    answer(repository, "team/good", right=3, total=4, n_shots=2, temperature=0.7)

    found = {entry["answer_set_id"]: entry for entry in listed(repository, capfd)}
    run(["list", "--answers", repository.uri])
    shown = capfd.readouterr().out

    shots = {entry["differs_in"]["prompt.n_shots"] for entry in found.values()}
    assert shots == {"0", "2"}
    assert {entry["settings"]["sampling"]["temperature"] for entry in found.values()} == {0.0, 0.7}
    for set_id, entry in found.items():
        (line,) = [line for line in shown.splitlines() if line.startswith(set_id)]
        assert f"prompt.n_shots={entry['differs_in']['prompt.n_shots']}" in line
        assert entry["updated_at"][:10] in line


def test_the_aliases_of_a_set_are_listed_and_a_damaged_one_is_named(
    repository: LocalRepository, capfd: pytest.CaptureFixture[str]
):
    good = answer(repository, "team/good", right=2, total=4)
    answer(repository, "team/bad", right=1, total=4)
    for alias in ("last-good", "baseline"):
        move_alias(repository, alias, [good])

    aliases = {entry["model"]: entry["aliases"] for entry in listed(repository, capfd)}
    assert aliases == {"team/good": ["baseline", "last-good"], "team/bad": []}
    repository.commit({"aliases/odd.json": b"{"}, "damage", parent=repository.head())
    with pytest.raises(SystemExit):
        run(["list", "--answers", repository.uri])
    out, err = capfd.readouterr()
    assert "alias baseline, alias last-good" in out
    assert "left out: aliases/odd.json" in err.replace("'", "")


def test_filters_and_order(repository: LocalRepository, capfd: pytest.CaptureFixture[str]):
    for model, right in (("team/good", 4), ("team/bad", 1), ("other/middle", 2)):
        score(answer(repository, model, right=right, total=4))

    def models(*options: str) -> list[str]:
        return [entry["model"] for entry in listed(repository, capfd, *options)]

    assert models("--sort", "accuracy") == ["team/good", "other/middle", "team/bad"]
    assert models("--sort", "accuracy", "--ascending")[0] == "team/bad"
    assert sorted(models("--model", "TEAM/")) == ["team/bad", "team/good"]
    assert models("--sort", "model") == ["other/middle", "team/bad", "team/good"]
    assert run(["list", "--answers", repository.uri, "--benchmark", "sum"]) == 2
    assert "`--benchmark sum` should be one of sums." in capfd.readouterr().err

    assert run(["list", "--answers", repository.uri, "--model", "nobody"]) == 0
    assert capfd.readouterr().out.startswith(
        "No answer set matches `--model nobody`. Models: other/middle, team/bad, team/good.\n"
        "0 of 3 answer sets in "
    )


def test_two_folders_of_one_name_are_two_models(
    repository: LocalRepository, capfd: pytest.CaptureFixture[str]
):
    for digit in "ab":
        model = ModelIdentity(name="final", kind="local", revision=digit * 64)
        publish(repository, numbers(0, 3), model=model)

    run(["list", "--answers", repository.uri])

    shown = capfd.readouterr().out
    assert "final@aaaaaaaa" in shown
    assert "final@bbbbbbbb" in shown


def test_seconds_are_those_of_generating_and_loading_is_told_apart(
    repository: LocalRepository, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    generated(tmp_path, repository, "org/slow", right=1, seconds=6.0, load_seconds=1.0)
    generated(tmp_path, repository, "org/fast", right=1, seconds=0.3, load_seconds=51.3)

    found = listed(repository, capfd, "--sort", "seconds")

    assert [(entry["model"], entry["seconds"], entry["load_seconds"]) for entry in found] == [
        ("org/slow", 6.0, 1.0),
        ("org/fast", 0.3, 51.3),
    ]


def test_of_two_versions_of_a_scorer_the_current_one_is_marked(
    repository: LocalRepository, capfd: pytest.CaptureFixture[str]
):
    answers = publish(repository, numbers(0, 3))
    score(answers)
    for day, source_hash in ((1, "a" * 8), (2, "b" * 8)):
        when = datetime(2026, 2, day, tzinfo=UTC)
        changed = {"scorer": "close", "source_hash": source_hash, "scored_at": when, "version": 1}
        score_with_an_older_scorer(again(answers), lambda _: {}, **changed)
    assert run(["list", "--answers", repository.uri]) == 0
    out = capfd.readouterr().out
    rows = {
        mark: line for line in out.splitlines() for mark in ("older", "current") if mark in line
    }
    assert "older version aaaaaaaa" in rows["older"]
    assert "current version bbbbbbbb" in rows["current"]
    assert run(["list", "--answers", repository.uri, "--json"]) == 0
    (entry,) = json.loads(capfd.readouterr().out)["answer_sets"]
    current = {score["source_hash"]: score["current"] for score in entry["scores"]}
    assert (current.pop("a" * 8), set(current.values())) == (False, {True})


def test_a_set_that_was_not_computed_alike_says_so(
    repository: LocalRepository, capfd: pytest.CaptureFixture[str]
):
    answers = publish(repository, numbers(0, 3), model="good")
    changes = {"mixed": ["runner: V1 against V2"], "computed": {"not_sent": ["temperature 0.0"]}}
    known = session().model_dump(mode="json")
    commit_manifest(answers, sessions=[known | changes])

    run(["list", "--answers", repository.uri])

    out = " ".join(capfd.readouterr().out.split())
    assert "not scored, mixed: runner: V1 against V2, refused by the server: temperature 0.0" in out
