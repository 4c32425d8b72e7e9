"""Questions that must not be published: the repository has none, and everything works where they are at hand."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.publishing import publish_questions
from regrade.answers.sets import AnswerSet
from regrade.answers.verify import verify
from regrade.answers.withheld import COLUMNS, WithheldQuestions, questions_at_hand
from regrade.cli.main import run
from regrade.records import Completion, Sample
from regrade.records.columns import generation_row
from regrade.scoring.score import score_answers
from regrade.settings.errors import DamagedAnswersError, RepositoryError, SettingsError
from tests.answers.conftest import add
from tests.builders import description
from tests.hub_server.fixtures import Hub
from tests.stored import again, score

pytestmark = pytest.mark.usefixtures("_own_folder")


@pytest.fixture
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGRADE_QUESTIONS", str(tmp_path / "questions"))


SECRET = "Which moon hums?"
SAMPLES = [
    Sample(
        f"id-{number}",
        number,
        "AB"[number % 2],
        {},
        choices=("Io", "Titan"),
        question=f"{SECRET} {number}",
        doc={"hint": f"{SECRET} doc"},
    )
    for number in range(4)
]


def rows(samples: Sequence[Sample], repeat: int = 0) -> list[dict[str, Any]]:
    return [
        generation_row(
            sample,
            repeat,
            Completion(
                sample.index,
                prompt=f"<user>{sample.question}",
                text="Answer: Io" if sample.index % 2 == 0 else "Answer: B",
                finish_reason="stop",
            ),
        )
        for sample in samples
    ]


def published(
    folder: Path, given: Sequence[dict[str, Any]] | None = None, **changes: Any
) -> AnswerSet:
    """Publish rows, by default answers to all questions, whose questions stay on this machine."""
    repository = LocalRepository(folder / "answers")
    described = description(4, ("choice_letter",), **changes).model_copy(update={"withheld": True})
    questions = WithheldQuestions(described.specification.answer_set_id)
    taken = questions.take(rows(SAMPLES) if given is None else given)
    spool = folder / "own-spool" / described.specification.model.slug
    return add(repository, spool, described, taken)


def test_no_file_of_the_repository_and_of_the_spool_holds_a_question(tmp_path: Path) -> None:
    answers = published(tmp_path)

    folders = (tmp_path / "answers", tmp_path / "own-spool")
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert any(path.suffix == ".parquet" for path in files)
    for shard in answers.manifest.shards:
        table = answers.shard(shard, COLUMNS).table()
        assert [table[name].null_count for name in ("question", "prompt", "doc")] == [4] * 3
        assert table["choices"].to_pylist() == [[]] * 4
    assert [path for path in files if b"hums" in path.read_bytes()] == []
    assert verify(answers.repository, answers.revision).problems == []


def test_questions_at_hand_are_joined_on_reading(tmp_path: Path) -> None:
    answers = published(tmp_path)

    columns = ["index", *COLUMNS, "text"]
    read = [row for batch in answers.batches(columns) for row in batch.to_pylist()]

    assert read == [{name: row[name] for name in columns} for row in rows(SAMPLES)]


def test_a_machine_without_the_questions_reads_the_answers_alone(tmp_path: Path) -> None:
    answers = published(tmp_path)
    answers.questions.path.unlink()

    columns = ["question", "choices", "text"]
    read = [row for batch in answers.batches(columns) for row in batch.to_pylist()]

    assert read[0] == {"question": None, "choices": [], "text": "Answer: Io"}
    assert len(read) == 4


def test_scores_that_need_the_questions_are_refused_without_them(tmp_path: Path) -> None:
    answers = published(tmp_path)
    file = answers.questions.path
    with_questions = score_answers(answers, "choice_letter").file.summary.overall
    moved = file.rename(tmp_path / "elsewhere.jsonl")

    with pytest.raises(SettingsError, match="reads their choices. 4 of 4 are missing in '.*jsonl'"):
        score_answers(answers, "choice_letter")
    assert score_answers(answers, "exact").file.summary.overall.n == 4
    moved.rename(file)

    assert with_questions.accuracy == 1.0
    assert score_answers(answers, "choice_letter").file.summary.overall == with_questions


def test_a_repository_is_continued_and_its_shards_still_hold_no_question(tmp_path: Path) -> None:
    published(tmp_path, rows(SAMPLES[1:]))
    published(tmp_path, [{**row, "error": "x", "text": None} for row in rows(SAMPLES[:1])])
    answers = published(tmp_path, rows(SAMPLES[:1]))

    assert answers.manifest.rows == 4
    assert len(answers.manifest.shards) == 2
    for shard in answers.manifest.shards:
        assert answers.shard(shard, ["prompt"]).table()["prompt"].null_count == shard.rows
    assert sum(batch["prompt"].null_count for batch in answers.batches(["prompt"])) == 0


def test_the_file_keeps_what_each_writer_adds(tmp_path: Path) -> None:
    first, second = WithheldQuestions("a" * 16), WithheldQuestions("a" * 16)

    first.add_samples(SAMPLES)
    second.take(rows(SAMPLES[:2]))
    second.take(rows(SAMPLES[:2], repeat=1))

    again = WithheldQuestions("a" * 16)
    assert again.lacks(4) == 0
    assert len(again.path.read_text().splitlines()) == 6
    assert again.path.stat().st_mode & 0o077 == 0


def test_a_line_cut_off_by_a_power_failure_is_ignored_and_replaced(tmp_path: Path) -> None:
    questions = WithheldQuestions("b" * 16)
    questions.add_samples(SAMPLES[:2])
    content = questions.path.read_bytes()
    questions.path.write_bytes(content[:-20])

    cut = WithheldQuestions("b" * 16)

    assert cut.lacks(4) == 3
    cut.add_samples(SAMPLES)
    assert WithheldQuestions("b" * 16).lacks(4) == 0


@pytest.mark.parametrize("line", ["[]", "{}", "x", json.dumps({"sample_id": "1", "question": 3})])
def test_a_line_that_is_no_question_is_an_error(line: str) -> None:
    questions = WithheldQuestions("c" * 16)
    questions.path.parent.mkdir(parents=True, exist_ok=True)
    questions.path.write_text(line + "\n")

    with pytest.raises(DamagedAnswersError, match="line 1 is not a withheld question"):
        questions.lacks(1)


@pytest.mark.parametrize("at_hand", [True, False])
def test_two_models_are_compared_on_withheld_questions(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], at_hand: bool
) -> None:
    one_right = [*rows(SAMPLES[:1]), *({**row, "text": "Answer: C"} for row in rows(SAMPLES[1:]))]
    worse = published(tmp_path, one_right, model="worse")
    for answers in (worse, published(tmp_path, model="better")):
        score(again(answers), "choice_letter")
        if not at_hand:
            answers.questions.path.unlink()

    code = run(["compare", "worse", "better", "--answers", str(tmp_path / "answers"), "--json"])

    (compared,) = json.loads(capfd.readouterr().out)["compared"]
    assert code == 0
    assert (compared["base"]["accuracy"], compared["candidate"]["accuracy"]) == (0.25, 1.0)
    assert compared["paired_by"] == "sample_id"
    assert len(compared["examples"]) == 3
    assert SECRET not in json.dumps(compared)  # reports are passed on


@pytest.mark.parametrize("at_hand", [True, False])
def test_an_answer_is_shown_with_its_stored_score_where_the_questions_are_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], at_hand: bool
) -> None:
    answers = published(tmp_path)
    score(answers, "choice_letter")
    if not at_hand:
        answers.questions.path.unlink()

    set_id = answers.manifest.answer_set_id
    code = run(["show", set_id, "--answers", answers.repository.uri, "--json", "--limit", "9"])

    shown = json.loads(capfd.readouterr().out)["answers"]
    assert code == 0
    assert [row["value"] for row in shown] == [1.0] * 4
    assert {SECRET in str(row["prompt"]) for row in shown} == {at_hand}


def test_a_private_repository_brings_the_questions_to_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGRADE_QUESTIONS_REPOSITORY", str(tmp_path / "private"))
    answers = published(tmp_path)
    publish_questions(answers.questions)
    publish_questions(answers.questions)

    monkeypatch.setenv("REGRADE_QUESTIONS", str(tmp_path / "another-machine"))
    read = [row["prompt"] for batch in answers.batches(["prompt"]) for row in batch.to_pylist()]

    assert read == [f"<user>{sample.question}" for sample in SAMPLES]
    assert score_answers(answers, "choice_letter").file.summary.overall.accuracy == 1.0
    assert (tmp_path / "another-machine" / answers.questions.path.name).is_file()


def test_two_machines_add_to_the_same_private_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGRADE_QUESTIONS_REPOSITORY", str(tmp_path / "private"))
    for machine, samples in (("a", SAMPLES[:3]), ("b", SAMPLES[1:])):
        monkeypatch.setenv("REGRADE_QUESTIONS", str(tmp_path / machine))
        questions = WithheldQuestions("d" * 16)
        questions.take(rows(samples))
        publish_questions(questions)

    assert WithheldQuestions("d" * 16).lacks(4) == 0
    monkeypatch.setenv("REGRADE_QUESTIONS", str(tmp_path / "c"))
    assert questions_at_hand("d" * 16, 4).lacks(4) == 0


def test_a_longer_file_of_another_machine_takes_the_question_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGRADE_QUESTIONS_REPOSITORY", str(tmp_path / "private"))
    theirs, ours = WithheldQuestions("d" * 16), WithheldQuestions("d" * 16)
    theirs.take(rows(SAMPLES[:3]))
    theirs.path.write_bytes(theirs.content() * 2)  # as by two processes that begin at once
    publish_questions(theirs)
    theirs.path.unlink()
    ours.take(rows(SAMPLES[2:]))
    publish_questions(ours)

    monkeypatch.setenv("REGRADE_QUESTIONS", str(tmp_path / "another-machine"))
    assert questions_at_hand("d" * 16, 4).lacks(4) == 0


def test_a_private_repository_on_the_hub_takes_the_questions_and_a_public_one_does_not(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", hub.token)
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("REGRADE_QUESTIONS_REPOSITORY", f"hf://datasets/{hub.repo_id}")
    questions = WithheldQuestions("f" * 16)
    questions.add_samples(SAMPLES[:3])

    publish_questions(questions)
    assert hub.repo().private
    hub.repo().private = False
    questions.add_samples(SAMPLES[3:])
    with pytest.raises(RepositoryError, match="it is public, and would publish questions"):
        publish_questions(questions)
    hub.repo().private = True

    monkeypatch.setenv("REGRADE_QUESTIONS", str(tmp_path / "elsewhere"))
    assert questions_at_hand("f" * 16, 4).lacks(4) == 1
