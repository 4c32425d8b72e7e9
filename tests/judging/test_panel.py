"""Several judges of the same answers."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet, list_sets
from regrade.judging.choosing import is_judge_set
from regrade.judging.labels.calibrated import Calibrated
from regrade.judging.panel import RULES, one_run_each, panel, panels_at
from regrade.judging.panel_result import panel_result
from regrade.judging.panel_text import judge_table
from regrade.judging.readings import judge_sets_of, run_of
from regrade.judging.stored import answer_set_at
from regrade.settings import Reuse
from regrade.settings.errors import SettingsError
from tests.judging.running import run_judge
from tests.judging.scripted import ScriptedJudge, candidates
from tests.stored import commit_manifest, commit_shards, numbers


def judged(folder: Path, name: str, letters: str, **parameters: object) -> AnswerSet:
    """Verdicts of a judge on questions 1, 2, ...; `-` is no verdict."""

    def judge(texts: dict[str, str]) -> str:
        letter = letters[int(texts["reference"]) - 1]
        return "" if letter == "-" else json.dumps({"explanation": "x", "verdict": letter})

    scripted = ScriptedJudge(judge)
    scripted.name = name
    return run_judge(scripted, folder, judges=(name,), rubric="correct", **parameters)


@pytest.fixture(scope="module")
def by_three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the runs of three judges."""
    folder = tmp_path_factory.mktemp("judged")
    candidates(folder / "answers", ["a", "b", "c", "d"])
    for name, letters in {"one": "AABA", "two": "ABB-", "three": "AABB"}.items():
        judged(folder, name, letters)
    return folder / "answers"


@pytest.fixture
def three(by_three: Path, tmp_path: Path) -> Sequence[AnswerSet]:
    """The runs, in a repository of the test's own."""
    repository = LocalRepository(shutil.copytree(by_three, tmp_path / "answers"))
    return [s for s in list_sets(repository, str(repository.head())) if is_judge_set(s)]


def test_a_majority_has_a_row_for_each_answer_and_none_in_a_draw(three: Sequence[AnswerSet]):
    found = panel(three)

    assert [row.combined("majority") for row in found.rows] == [1.0, 1.0, 0.0, None]
    assert [len(row.values) for row in found.rows] == [3, 3, 3, 2]
    assert found.unanimous == pytest.approx(2 / 3)
    assert [(a.equal, a.n) for a in found.agreements] == [
        (pytest.approx(2 / 3), 3),
        (0.75, 4),
        (pytest.approx(2 / 3), 3),
    ]


def test_a_judge_run_that_cannot_be_read_is_named_where_it_is_left_out(
    three: Sequence[AnswerSet], caplog: pytest.LogCaptureFixture
):
    repository, gone = three[0].repository, three[0]
    manifest = f"{gone.folder}/manifest.json"
    head = repository.commit({manifest: b"{"}, "damage", parent=repository.head())
    judged_set = run_of(gone).judged

    for _ in range(2):
        found = judge_sets_of(repository, head, judged_set.answer_set_id)
        assert [answers.folder for answers in found] == [answers.folder for answers in three[1:]]
        assert answer_set_at(repository, head, judged_set.answer_set_id) is not None

    (line,) = caplog.messages
    assert line.startswith(f"an answer set is left out: '{manifest}' is damaged: ")


def test_a_mean_needs_a_combined_value_of_nearly_all_answers(
    three: Sequence[AnswerSet], tmp_path: Path
):
    found = panel(three)
    low = panel(three, min_coverage=0.75)
    silent = [judged(tmp_path, name, "AA--") for name in ("four", "five")]

    assert (found.mean("majority"), found.stderr("majority")) == (None, None)
    assert (low.mean("majority"), low.stderr("majority")) == (
        pytest.approx(2 / 3),
        pytest.approx(1 / 3),
    )
    assert [row.combined("majority") for row in panel(silent).rows] == [1.0, 1.0, None, None]


def test_an_answer_with_nothing_to_judge_is_in_no_figure_and_told(tmp_path: Path):
    candidates(tmp_path / "answers", ["a", "b", None])
    runs = [judged(tmp_path, name, letters) for name, letters in {"one": "AA", "two": "A-"}.items()]

    found = panel(runs, min_coverage=0.6)
    calibrations = dict.fromkeys([*found.judges, *RULES], Calibrated())
    result = panel_result(found, calibrations)

    assert (result.answers, result.nothing_to_judge) == (2, 1)
    assert found.mean("mean") == 1.0
    assert panel(runs).mean("mean") is None  # the floor is about all answers
    assert [row[-1] for row in judge_table(result).rows] == [
        "2",
        "1",
        "2 (1 with nothing to judge)",
        "2 (1 with nothing to judge)",
    ]


def test_a_judge_that_ran_twice_counts_once_with_the_most_questions_and_then_the_newest(
    three: Sequence[AnswerSet], tmp_path: Path
):
    judged_id = run_of(three[0]).judged.answer_set_id
    repository = three[0].repository
    [answers] = list_sets(repository, repository.head(), answer_set_id=judged_id)
    fresh = Reuse(fresh=True)
    twice = judged(tmp_path, "one", "BBBB", judge_repeats=2, reuse=fresh)
    few = judged(tmp_path, "one", "BBBB", judge_repeats=3, limit=2, reuse=fresh)

    chosen = one_run_each([*three, twice, few], answers)

    assert [judge_set.manifest.answer_set_id for judge_set in chosen] == [
        judge_set.manifest.answer_set_id for judge_set in (twice, *three[1:])
    ]
    assert [row.values["one@r1"] for row in panel(chosen).rows] == [0.0] * 4
    assert one_run_each([*three, twice], commit_shards(answers, numbers(0, 4))) == []


def test_a_judge_is_left_out_without_asking_the_others_again(three: Sequence[AnswerSet]):
    names = panel(three).judges

    found = panel(three, without=(names[1].partition("@")[0],))

    assert found.judges == (names[0], names[2])
    assert [row.combined("mean") for row in found.rows] == [1.0, 1.0, 0.0, 0.5]


def test_judges_of_other_answers_or_rubrics_are_not_combined(
    three: Sequence[AnswerSet], tmp_path: Path
):
    candidates(tmp_path / "other" / "answers", ["x"])
    other = judged(tmp_path / "other", "four", "A")
    with pytest.raises(SettingsError, match="judged other answers, or by another rubric"):
        panel([three[0], other])
    with pytest.raises(SettingsError, match="needs two judges or more"):
        panel(three[:1])
    with pytest.raises(SettingsError, match="of the same judge"):
        panel([three[0], three[0]])
    with pytest.raises(SettingsError, match="'five' is not one of the judges"):
        panel(three, without=("five",))


def test_the_panels_of_a_repository_are_found_by_one_of_their_runs(
    three: Sequence[AnswerSet], tmp_path: Path
):
    repository = three[0].repository
    head = str(repository.head())
    candidates(tmp_path / "answers", ["x", "y"], model="org/other")
    alone = judged(tmp_path, "one", "AB", answer_sets=("org/other",))
    plain = [answers for answers in list_sets(repository, head) if not is_judge_set(answers)]

    [(found, runs)] = panels_at(repository, str(repository.head()), [three[1], three[2]])

    assert [run.manifest.answer_set_id for run in runs] == [
        run.manifest.answer_set_id for run in three
    ]
    assert found.judges == ("one@r1", "two@r1", "three@r1")
    assert panels_at(repository, str(repository.head()), [alone, *plain]) == []


def test_a_judge_run_of_a_newer_version_does_not_keep_the_others_from_being_combined(
    three: Sequence[AnswerSet],
):
    repository = three[0].repository
    document = three[0].manifest.model_dump(mode="json")
    document["specification"]["benchmark"]["parameters"]["judge_run"]["of_tomorrow"] = 1
    commit_manifest(three[0], specification=document["specification"])

    [(found, _)] = panels_at(repository, str(repository.head()), [three[1]])

    assert found.judges == ("two@r1", "three@r1")
