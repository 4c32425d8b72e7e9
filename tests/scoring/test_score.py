import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from regrade.answers.aliases import move_alias
from regrade.answers.local import LocalRepository
from regrade.answers.publishing import publish_scores
from regrade.answers.result import Result
from regrade.answers.scorefile import ORIGINAL, OriginalScoring
from regrade.answers.sets import AnswerSet, list_sets
from regrade.comparing.pairing import pair, score_sides
from regrade.exchange.exporting.scored import fresh_result
from regrade.pages.viewer.library import Library
from regrade.processes.limited import Limits
from regrade.records.columns import KEYS
from regrade.records.specification import ModelIdentity
from regrade.scorers import load_scorer
from regrade.scorers.base import SHARED_COLUMNS
from regrade.scoring.diff_sides import diff_scorings
from regrade.scoring.originals import first_scorer
from regrade.scoring.score import check_scorers, is_stale, score_answers, stale_scorers
from regrade.scoring.source_hash import source_hash
from regrade.settings.errors import DamagedAnswersError, NotInstalledError, SettingsError
from tests.builders import row
from tests.stored import again, commit_shards, numbers, publish, score, score_with_an_older_scorer


def break_shard(answers: AnswerSet, number: int) -> str:
    """Truncate a shard of a folder, and return its name."""
    assert isinstance(answers.repository, LocalRepository)
    name = answers.manifest.shards[number].name
    path = answers.repository.folder / answers.folder / name
    content = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(content[: len(content) // 2])
    return name


def test_a_scorer_that_changed_or_answers_that_grew_make_scores_stale(
    repository: LocalRepository,
) -> None:
    answers = publish(repository, numbers(0, 3), total=5)
    score_with_an_older_scorer(answers, lambda _: {})
    score(again(answers), "number_strict")
    assert stale_scorers(again(answers)) == ("number",)

    score(again(answers))
    assert stale_scorers(again(answers)) == ()
    assert len(again(answers).scores()) == 3  # old scores stay

    grown = publish(repository, numbers(3, 5), total=5)
    assert set(stale_scorers(again(grown))) == {"number", "number_strict"}


def test_scores_of_a_scorer_that_is_not_ours_are_no_work(repository: LocalRepository) -> None:
    answers = publish(repository, numbers(0, 3))
    theirs = score_with_an_older_scorer(answers, lambda _: {}, scorer="number", version=7)
    foreign = theirs.model_copy(update={"scorer": "original"})

    assert not is_stale(foreign, again(answers))
    assert stale_scorers(answers) == ()


def test_scoring_reads_one_commit_and_no_more_columns_than_it_needs(
    repository: LocalRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = publish(repository, numbers(0, 4), total=6)
    read: list[tuple[str, ...]] = []
    revisions: set[str] = set()
    shard, fetch = AnswerSet.shard, LocalRepository.fetch
    monkeypatch.setattr(
        AnswerSet,
        "shard",
        lambda s, name, columns: (read.append(tuple(columns)), shard(s, name, columns))[1],
    )
    monkeypatch.setattr(
        LocalRepository,
        "fetch",
        lambda s, path, revision: (revisions.add(revision), fetch(s, path, revision))[1],
    )
    publish(LocalRepository(repository.folder), numbers(4, 6), total=6)  # someone else, meanwhile
    revisions.clear()
    read.clear()

    scored = score_answers(answers, "number")

    assert scored.file.summary.overall.rows == 4
    assert revisions == {answers.revision}
    (columns,) = read
    assert set(columns) == {*SHARED_COLUMNS, *load_scorer("number").columns}
    assert "prompt" not in columns


def test_a_commit_of_scores_leaves_all_of_answers_as_it_was(repository: LocalRepository) -> None:
    answers = publish(repository, numbers(0, 4))
    before = repository.files(answers.revision, "answers")

    score(answers)

    head = repository.head()
    assert head != answers.revision
    assert repository.files(head, "answers") == before


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_shard_is_refused_by_name(repository: LocalRepository, damage: str) -> None:
    answers = publish(repository, numbers(0, 3), numbers(3, 6), total=6)
    name = break_shard(answers, 1)
    if damage == "gone":
        (repository.folder / answers.folder / name).unlink()

    with pytest.raises(DamagedAnswersError, match=name):
        score_answers(answers, "number")


def test_what_is_intact_is_scored_only_when_asked_and_says_so(repository: LocalRepository) -> None:
    answers = publish(repository, numbers(0, 3), numbers(3, 6), numbers(6, 8), total=8)
    name = break_shard(answers, 1)

    scored = score_answers(answers, "number", intact=True)

    assert scored.file.left_out == (name,)
    assert scored.file.intact_only == "intact only: 2 of 3 shards"
    assert scored.file.label.endswith("-intact-2-of-3")
    assert scored.file.title == "number v3, intact only: 2 of 3 shards"
    assert scored.file.summary.overall.rows == 5
    assert is_stale(scored.file, answers)


def test_a_stored_number_is_not_taken_for_answers_that_are_damaged_since(
    repository: LocalRepository,
) -> None:
    score(publish(repository, numbers(0, 3), numbers(3, 6), total=6))
    [answers] = list_sets(repository, str(repository.head()))
    assert score_answers(answers, "number").table is None

    name = break_shard(answers, 1)

    for take in (
        lambda: score_answers(answers, "number"),
        lambda: score_sides(
            answers, answers, "number"
        ),  # compare, gate, chart, pairs in the viewer
        lambda: fresh_result(answers),  # exports, publish-results
        lambda: diff_scorings(answers, None, "exact"),
        lambda: stale_scorers(answers),
        lambda: move_alias(repository, "baseline", [answers]),
    ):
        with pytest.raises(DamagedAnswersError, match=name):
            take()
    assert score_answers(answers, "number", intact=True).file.summary.overall.rows == 3


def test_a_damaged_scoring_is_refused_where_it_is_meant_and_named_once_where_all_are_looked_through(
    repository: LocalRepository, caplog: pytest.LogCaptureFixture
) -> None:
    came = {"outcome": "scored", "value": 1.0}
    tool = OriginalScoring(tool="lm-eval", name="exact_match")
    model = ModelIdentity(name="org/tiny", kind="imported", revision="a" * 40)
    imported = publish(repository, numbers(0, 3), model=model)
    original = score_with_an_older_scorer(imported, lambda _: came, scorer=ORIGINAL, original=tool)
    label = score(imported).label
    damaged = [f"{imported.scores_folder}/{name}.json" for name in (label, original.label)]
    repository.commit(dict.fromkeys(damaged, b"{"), "damage", parent=repository.head())
    answers = again(imported)

    for take, path in (
        (lambda: score_sides(answers, answers, "number"), damaged[0]),
        (lambda: score_sides(answers, answers, ORIGINAL), damaged[1]),
        (lambda: first_scorer(answers), damaged[1]),
    ):
        with pytest.raises(DamagedAnswersError, match=f"'{re.escape(path)}' is damaged"):
            take()
    assert score_sides(answers, answers, "exact")[0].file.scorer == "exact"
    assert [message.partition(": not")[0] for message in caplog.messages] == [
        f"a scoring is left out: '{path}' is damaged" for path in damaged
    ]
    score(answers)
    assert score_sides(again(answers), again(answers), "number")[0].file.label == label


def test_scores_of_other_answers_are_refused_wherever_both_are_read(
    repository: LocalRepository,
) -> None:
    other = publish(repository, numbers(0, 3), model="org/other")
    score(other)
    answers = publish(repository, numbers(0, 3))
    scored = score_answers(answers, "number")
    ids = scored.table["sample_id"].to_pylist()
    changed = pa.array([f"another-{name}" for name in ids])
    publish_scores(
        repository, [(answers, scored.file, scored.table.set_column(0, "sample_id", changed))]
    )

    library = Library(repository)
    stored = library.shelf().find(answers.manifest.answer_set_id)
    for take in (
        lambda: [*Result(stored.answers, scored.file).rows(KEYS)],
        lambda: pair(*score_sides(again(other), stored.answers, "number")),
        lambda: library.index(stored, stored.headline),
    ):
        with pytest.raises(DamagedAnswersError, match="its rows do not match the scored answers"):
            take()


def test_there_is_no_scoring_of_answers_of_which_nothing_is_intact(
    repository: LocalRepository,
) -> None:
    answers = publish(repository, numbers(0, 3))
    name = break_shard(answers, 0)

    with pytest.raises(DamagedAnswersError, match=name):
        score_answers(answers, "number", intact=True)


def test_intact_scoring_of_an_undamaged_set_is_the_normal_one(repository: LocalRepository) -> None:
    answers = publish(repository, numbers(0, 3))

    scored = score_answers(answers, "number", intact=True)

    assert scored.file.left_out == ()
    assert not is_stale(scored.file, answers)


def test_a_row_that_is_there_twice_is_refused_with_its_shard(repository: LocalRepository) -> None:
    answers = publish(repository, numbers(0, 3), numbers(3, 6), total=6)
    doubled = commit_shards(answers, numbers(0, 3), [row(7), row(1)])

    with pytest.raises(
        DamagedAnswersError, match=r"sample 'sample-00001', repeat 0 is a duplicate"
    ) as caught:
        score_answers(doubled, "number")
    assert caught.value.path.endswith(doubled.manifest.shards[1].name)


def test_an_answer_without_a_target_is_missing_and_the_others_are_scored(
    repository: LocalRepository,
) -> None:
    rows = [
        row(0, text="#### 7", target=None),
        row(1, text="#### 7", target="7"),
        row(2, text="#### 7", target="8"),
        row(3, text="#### 7", target=None, finish_reason="length"),
    ]
    scored = score_answers(publish(repository, rows), "number")

    assert scored.table["value"].to_pylist() == [None, 1.0, 0.0, None]
    assert scored.table["outcome"].to_pylist() == ["failed", "scored", "scored", "failed"]
    assert scored.table["truncated"].to_pylist() == [False, False, False, True]
    assert scored.table["sample_id"].to_pylist() == [answer["sample_id"] for answer in rows]
    overall = scored.file.summary.overall
    assert (overall.accuracy, overall.n, overall.failed) == (0.5, 2, 2)


@pytest.mark.parametrize(
    ("scorer", "answer", "changes"),
    [
        (
            "number",
            {"text": None},
            {"model": ModelIdentity(name="m", kind="imported", revision="1")},
        ),
        (
            "choice_logprob",
            {"text": None, "label_logprobs": [None, -1.0]},
            {"method": "rank", "sampling": None},
        ),
    ],
)
def test_a_scoring_that_counted_missing_answers_as_wrong_is_made_again(
    repository: LocalRepository, scorer: str, answer: dict[str, Any], changes: dict[str, Any]
) -> None:
    target = "7" if scorer == "number" else "B"
    failed = {"text": None, "error": "500", "error_permanent": True}
    wrong = row(3, target=target, text="Who knows?", label_logprobs=[math.nan, -1.0])
    rows = [row(0, target=target) | answer, row(1, target=target) | failed, wrong]
    answers = publish(repository, rows, scorers=(scorer,), **changes)
    today = {"version": load_scorer(scorer).version, "source_hash": source_hash(scorer)}

    def as_before(score: dict[str, Any]) -> dict[str, Any]:
        was_wrong = score["sample_id"] == rows[0]["sample_id"]
        return {"outcome": "unparsed", "value": 0.0} if was_wrong else {}

    score_with_an_older_scorer(answers, as_before, scorer, **today)
    assert stale_scorers(again(answers)) == (scorer,)

    scored = score_answers(again(answers), scorer)
    assert scored.table is not None
    assert scored.file.summary.overall.failed == 2
    publish_scores(repository, [(again(answers), scored.file, scored.table)])
    assert stale_scorers(again(answers)) == ()
    assert scored.file.summary.overall.unparsed == 1


def test_the_texts_of_ranked_choices_are_not_read_to_find_that_a_scoring_is_up_to_date(
    repository: LocalRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row(n, target="B", label_logprobs=[math.nan, -1.0]) for n in range(2)]
    changes: dict[str, Any] = {"method": "rank", "sampling": None}
    answers = publish(repository, rows, scorers=("choice_logprob",), **changes)
    score(answers, "choice_logprob")
    batches, read = AnswerSet.batches, set[str]()

    def asked(self: AnswerSet, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        read.update(columns)
        return batches(self, columns)

    monkeypatch.setattr(AnswerSet, "batches", asked)
    assert score_answers(again(answers), "choice_logprob").table is None
    assert read == {"target", "label_logprobs", "error"}


def test_answers_without_any_target_are_refused(repository: LocalRepository) -> None:
    answers = publish(repository, [row(0, target=None)], [row(1, target=None)], total=2)

    with pytest.raises(SettingsError, match="scorer 'number' has nothing to compare with"):
        score_answers(answers, "number")


def test_a_scorer_that_does_not_fit_says_so(repository: LocalRepository) -> None:
    answers = publish(repository, [row(0, target="Paris")])

    with pytest.raises(SettingsError, match="Paris"):
        score_answers(answers, "number")


def test_a_scorer_that_cannot_run_here_is_refused_before_anything_is_generated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("regrade.scorers.math._PACKAGES", ("not-an-installed-package",))

    check_scorers(("number", "exact"), None)
    with pytest.raises(NotInstalledError, match=r"regrade\[math\]"):
        check_scorers(("number", "math"), None)


def test_a_session_scorer_has_its_versions_in_its_label_and_counts_timeouts_apart(
    repository: LocalRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "regrade.scorers.math.LIMITS", Limits(cpu_seconds=0.5, seconds=60, memory=1 << 30)
    )
    texts = [r"\boxed{1}", r"\boxed{\frac{4}{2}}", r"\boxed{10^{10^{10}}}", r"\boxed{x=3}"]
    rows = [row(number, text) for number, text in enumerate(texts, 1)]
    answers = publish(repository, rows, total=4)
    seen: list[tuple[int, int]] = []

    scored = score_answers(answers, "math", on_scored=lambda done, of: seen.append((done, of)))

    overall = scored.file.summary.overall
    assert (overall.n, overall.timeouts, overall.unparsed) == (4, 1, 0)
    assert overall.accuracy == 0.5
    assert scored.file.environment["cpu_seconds"] == "0.5"
    assert scored.file.label.startswith(f"math-2-{scored.file.source_hash}-")
    assert seen[-1] == (4, 4)
