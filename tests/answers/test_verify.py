import json
import re
import shutil
import time
import tracemalloc
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from regrade.answers.documents import Verified
from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet, list_sets
from regrade.answers.verify import check_rows, verify
from regrade.cli.main import run
from regrade.records.columns import GENERATION_SCHEMA
from regrade.scoring.score import score_answers
from regrade.settings import SamplingParams
from regrade.settings.errors import DamagedAnswersError, RepositoryError
from tests.builders import row, session, specification
from tests.stored import (
    again,
    commit_manifest,
    commit_shards,
    numbers,
    publish,
    score,
    score_with_an_older_scorer,
    table_bytes,
)


@pytest.fixture
def answers(repository: LocalRepository) -> AnswerSet:
    return publish(repository, numbers(0, 3), numbers(3, 6), total=6)


def verified(answers: AnswerSet) -> Verified:
    head = answers.repository.head()
    assert head is not None
    return verify(answers.repository, head)


def only_problem(answers: AnswerSet) -> tuple[str, str]:
    (found,) = verified(answers).problems
    return Path(found.path).name, found.problem


def test_a_whole_repository_has_no_problem(answers: AnswerSet) -> None:
    score(answers)
    score_with_an_older_scorer(again(answers), lambda _: {})

    found = verified(answers)

    assert found.problems == []
    assert (found.answer_sets, found.shards, found.rows, found.scorings) == (1, 2, 6, 2)


def test_one_answer_set_can_be_verified_alone(
    repository: LocalRepository, answers: AnswerSet
) -> None:
    other = publish(repository, numbers(0, 2), benchmark="products")
    (repository.folder / answers.folder / answers.manifest.shards[0].name).unlink()

    assert verify(repository, other.revision, other.manifest.answer_set_id[:8]).problems == []
    assert len(verify(repository, other.revision).problems) == 1
    with pytest.raises(RepositoryError, match="ffff"):
        verify(repository, other.revision, "ffff")


@pytest.mark.parametrize("damage", ["altered", "cut", "gone"])
def test_a_damaged_shard_is_named(
    repository: LocalRepository, answers: AnswerSet, damage: str
) -> None:
    shard = repository.folder / answers.folder / answers.manifest.shards[1].name
    content = shard.read_bytes()
    shard.unlink()
    if damage == "altered":
        shard.write_bytes(content[:-9] + b"#" + content[-8:])
    elif damage == "cut":
        shard.write_bytes(content[:-9])

    assert only_problem(answers)[0] == shard.name


@pytest.mark.parametrize(
    ("shards", "says"),
    [
        ([numbers(0, 3), [row(8), row(2)]], "row 1: sample 'sample-00002', repeat 0 is a dup"),
        ([numbers(3, 6), [row(0), row(1), row(0)]], "row 2: sample 'sample-00000'"),
        ([[row(0, repeat=3)]], "repeat 3, expected 0 to 0"),
        ([numbers(0, 7)], "more than the 6 samples"),
    ],
    ids=["in two shards", "twice in one", "of no repeat", "of no sample"],
)
def test_a_row_that_should_not_be_there_is_named_with_its_shard(
    answers: AnswerSet, shards: list[list[dict[str, Any]]], says: str
) -> None:
    wrong = commit_shards(answers, *shards)

    path = f"{wrong.folder}/{wrong.manifest.shards[-1].name}"
    assert any(f.path == path and says in f.problem for f in verified(wrong).problems)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rows": 5}, "says 5 rows, its shards have 6"),
        ({"state": "incomplete"}, "state is 'incomplete' with 6 of 6"),
        ({"schema_version": 4, "new_field": 1}, "written with schema 4.*upgrade regrade"),
        ({"answer_set_id": "f" * 16}, "is not that of its specification"),
        ({"scorers": []}, "names no scorer"),
        ({"shards": "none"}, "not a manifest: shards"),
        ({"created_at": "2026-01-01T00:00:00"}, "created_at: .*timezone"),
        ({"created_at": "0001-01-01T00:00:00+14:00"}, "created_at: .*greater than or equal"),
        ({"updated_at": "9999-12-31T23:59:59-12:00"}, "updated_at: .*less than"),
    ],
)
def test_a_manifest_that_does_not_hold_is_named(
    answers: AnswerSet, changes: dict[str, object], says: str
) -> None:
    commit_manifest(answers, **changes)

    (problem,) = (p for p in verified(answers).problems if p.path.endswith("manifest.json"))
    assert re.search(says, problem.problem)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("load_seconds", -1.0),
        ("generate_seconds", float("nan")),
        ("generate_seconds", 1e308),
        ("generate_seconds", float("inf")),
        ("rows", -1),
        ("prompt_tokens", -1),
        ("completion_tokens", -1),
        ("started_at", "2026-01-01T00:00:00"),
    ],
)
def test_a_session_with_an_impossible_value_is_damage_and_named(
    answers: AnswerSet, field: str, value: object
) -> None:
    commit_manifest(answers, sessions=[session().model_dump(mode="json") | {field: value}])

    with pytest.raises(DamagedAnswersError, match=rf"manifest.json.*sessions\.0\.{field}"):
        list_sets(answers.repository, str(answers.repository.head()))


@pytest.mark.parametrize(
    ("field", "value"), [("score_seconds", -1.0), ("scored_at", "2026-01-01T00:00:00")]
)
def test_a_score_file_with_an_impossible_value_is_damage_and_named(
    answers: AnswerSet, field: str, value: object
) -> None:
    file = score(answers)
    path = f"{answers.scores_folder}/{file.label}.json"
    content = json.dumps(file.model_dump(mode="json") | {field: value}).encode()
    answers.repository.commit({path: content}, "from a stranger", parent=answers.repository.head())

    with pytest.raises(DamagedAnswersError, match=rf"{file.label}.json.*{field}"):
        again(answers).scores()


def test_a_shard_listed_twice_is_found(answers: AnswerSet) -> None:
    shards = [shard.model_dump() for shard in answers.manifest.shards]
    commit_manifest(answers, shards=[shards[0], shards[0]])
    assert "more than once" in verified(answers).problems[0].problem


def test_what_a_kill_in_a_commit_left_on_disk_is_named_and_swept(
    repository: LocalRepository, answers: AnswerSet, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, (first, second) = repository.folder / answers.folder, answers.manifest.shards
    unlisted = folder / second.name.replace("part-00001", "part-00002")
    shutil.copy(folder / second.name, unlisted)
    (folder / first.name).rename(repository.folder / ".regrade" / "objects" / first.sha256)
    words = ["verify", "--answers", repository.uri]

    assert run(words) == 1
    told = capsys.readouterr().out
    assert f"{unlisted.name}: no commit lists it" in told
    assert f"{first.name}: it is not at its path, but it is kept" in told
    assert run([*words, "--sweep"]) == 0

    assert {path.name for path in folder.glob("part-*")} == {first.name, second.name}
    assert " 6 intact rows" in capsys.readouterr().out
    shutil.rmtree(repository.folder / ".regrade")
    assert run(words) == 0  # a plain copy is whole


@pytest.mark.parametrize("copy", ["whole", "differences"])
def test_a_damaged_copy_is_named_and_no_advice_is_about_answers(
    repository: LocalRepository, answers: AnswerSet, capsys: pytest.CaptureFixture[str], copy: str
) -> None:
    lines = [f"line {number}" for number in range(2000)]
    for number in range(3):  # the first is kept whole, then its differences, and theirs
        text = "\n".join([*lines[:number], "changed", *lines[number:]]).encode()
        repository.commit({"questions/notes.txt": text}, "notes", parent=repository.head())
    words = ["verify", "--answers", repository.uri]
    assert run(words) == 0
    objects = repository.folder / ".regrade" / "objects"
    ((damaged, content),) = [
        (path, text)
        for path in objects.iterdir()
        if b"changed" in (text := path.read_bytes())
        and (path.suffix == "" if copy == "whole" else b'"chain":1' in text)
    ]
    damaged.chmod(0o644)
    damaged.write_bytes(content.replace(b"changed", b"damaged"))
    capsys.readouterr()

    assert run(words) == 1

    told = capsys.readouterr()
    assert told.out.startswith(f".regrade/objects/{damaged.name}: this copy is damaged")
    assert told.err == f"regrade: 1 problem in '{repository.uri}'.\n"


def test_files_that_belong_to_nothing_are_named(
    repository: LocalRepository, answers: AnswerSet
) -> None:
    score(answers)
    additions: dict[str, Path | bytes] = {
        f"{answers.folder}/part-00009-00000000.parquet": b"PAR1",
        f"{answers.scores_folder}/number-1-11111111.parquet": b"PAR1",
        "answers/sums/nobody/0000000000000000/part-00000-00000000.parquet": b"PAR1",
        "scores/sums/nobody/0000000000000000/number-1-00000000.json": b"{}",
    }
    repository.commit(additions, "strays", parent=repository.head())

    assert {found.path for found in verified(answers).problems} == set(additions)


@pytest.mark.parametrize(
    ("place", "wrong", "right"),
    [
        (("overall", "accuracy"), 0.25, 1.0),
        (("overall", "accuracy_stderr"), 0.25, 0.0),
        (("overall", "truncated"), 1, 0),
        (("macro_accuracy",), 0.5, 1.0),
        (("subsets", 1, "metrics", "n"), 4, 3),
        (("samples",), 7, 6),
    ],
    ids=str,
)
def test_scores_that_do_not_follow_from_their_rows_are_found(
    repository: LocalRepository,
    answers: AnswerSet,
    place: tuple[str | int, ...],
    wrong: float,
    right: float,
) -> None:
    file = score(answers)
    path = f"{answers.scores_folder}/{file.label}.json"
    document = json.loads((repository.folder / path).read_text())
    *above, last = place
    reduce(getitem, above, document["summary"])[last] = wrong
    repository.commit({path: json.dumps(document).encode()}, "wish", parent=repository.head())

    name, problem = only_problem(answers)
    assert name == f"{file.label}.json"
    assert problem == f"its {'.'.join(map(str, place))} is {wrong}, its rows give {right}."


def test_errors_and_intervals_as_earlier_versions_had_them_are_no_damage(
    repository: LocalRepository,
) -> None:
    identity = specification().benchmark.model_copy(update={"parameters": {"turns": 2}})
    rows = [
        row(n, "#### 9" if repeat else "", repeat=repeat, sample_id=f"q{n // 2}#{n % 2 + 1}/2")
        for n in range(4)
        for repeat in range(3)
    ]
    sampling = SamplingParams(temperature=1.0)
    answers = publish(repository, rows, benchmark=identity, repeats=3, sampling=sampling)
    now = score_answers(answers, "number").file.summary
    third = {"accuracy_low": 1 / 3, "accuracy_high": 1 / 3}
    changes = {
        "overall": now.overall.model_copy(update=third),
        "pass_at_stderr": dict.fromkeys((1, 2, 3), 0.1),
        "majority_stderr": 0.1,
    }

    score_with_an_older_scorer(answers, lambda _: {}, summary=now.model_copy(update=changes))

    assert verified(answers).problems == []


def test_scores_of_other_rows_or_other_shards_are_found(answers: AnswerSet) -> None:
    score_with_an_older_scorer(answers, lambda row: {"sample_id": row["sample_id"] + "x"})
    assert "do not match the scored answers" in only_problem(answers)[1]

    score_with_an_older_scorer(answers, lambda _: {}, answers=("e" * 64,))
    assert "is not in the manifest" in only_problem(answers)[1]


def test_a_scoring_without_its_table_or_under_another_name_is_found(
    repository: LocalRepository, answers: AnswerSet
) -> None:
    file = score(answers)
    stem = repository.folder / answers.scores_folder / file.label
    content = stem.with_suffix(".json").read_bytes()
    other = f"{answers.scores_folder}/number-1-22222222.json"
    repository.commit({other: content}, "copy", parent=repository.head())

    name, problem = only_problem(answers)
    assert name == "number-1-22222222.json"
    assert file.label in problem


def test_a_column_that_the_format_does_not_know_is_named(answers: AnswerSet) -> None:
    table = pa.Table.from_pylist(numbers(0, 6), schema=GENERATION_SCHEMA)
    more = table.append_column("payload", pa.array(["x"] * 6))
    damaged = verified(commit_shards(answers, table_bytes(more)))
    assert any("column 'payload'" in found.problem for found in damaged.problems)


def test_duplicates_among_six_hundred_thousand_rows_are_found_in_little_memory(
    repository: LocalRepository,
) -> None:
    n, repeats = 100_000, 6
    answers = publish(repository, [row(0)], total=n, repeats=repeats)
    shard = answers.manifest.shards[0].model_copy(update={"rows": n * repeats})
    answers = replace(answers, manifest=answers.manifest.model_copy(update={"shards": (shard,)}))
    ids = pa.array([f"{number:032x}" for number in range(n)] * repeats)
    repeat = np.repeat(np.arange(repeats, dtype=np.int32), n)
    whole = pa.table({"sample_id": ids, "repeat": repeat})

    before = pa.total_allocated_bytes()
    tracemalloc.start()
    started = time.process_time()
    check_rows(answers, whole)
    seconds = time.process_time() - started
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert seconds < 3
    assert peak < 100 * 2**20
    assert pa.total_allocated_bytes() - before < 2**20
