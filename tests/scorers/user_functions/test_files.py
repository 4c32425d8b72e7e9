"""Scorers in a file: `path/to/file.py:name`, for stored answers, datasets, comparisons and the gate."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.benchmarks import open_dataset
from regrade.scorers import load_scorer, scorer_names
from regrade.scorers.user_functions.files import forget_files, load_file
from regrade.scoring.diff_sides import diff_scorings
from regrade.scoring.score import is_stale, label_of
from regrade.scoring.source_hash import source_hash
from regrade.settings import DatasetBenchmark
from regrade.settings.errors import PluginError, SettingsError, UnknownNameError
from tests.builders import row
from tests.command_line import regrade
from tests.comparing.sides import answer
from tests.stored import again, publish, score

ENDS_WITH = '''
def ends_with(answer: str, target: str) -> bool:
    """The end of the answer."""
    return answer.rstrip(".").endswith(target)
'''


def restart() -> None:
    forget_files()
    source_hash.cache_clear()


@pytest.fixture(autouse=True)
def new_process() -> Iterator[None]:
    """Nothing is loaded afterwards."""
    yield
    restart()


def written(folder: Path, text: str = ENDS_WITH, name: str = "ends_with") -> str:
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(text)
    return f"{folder / 'mine.py'}:{name}"


def stored(folder: Path) -> AnswerSet:
    rows = [row(1, "It is 1."), row(2, "It is 3.")]
    return publish(LocalRepository(folder / "answers"), rows)


def test_a_function_of_a_file_scores_stored_answers(tmp_path: Path):
    answers = stored(tmp_path)

    file = score(answers, written(tmp_path))

    assert (file.scorer, file.summary.overall.accuracy) == ("ends_with", 0.5)
    assert file.label == label_of("ends_with")
    assert not is_stale(file, again(answers))


def test_no_path_of_the_machine_is_stored(tmp_path: Path):
    answers = stored(tmp_path)
    score(answers, written(tmp_path / "secret_place"))

    texts = [path.read_bytes() for path in (tmp_path / "answers").rglob("*.json")]
    assert any(b'"ends_with"' in text for text in texts)
    assert not any(b"secret_place" in text or b"mine.py" in text for text in texts)


def test_the_hash_of_the_file_is_the_version(tmp_path: Path):
    answers = stored(tmp_path)
    first = score(answers, written(tmp_path))
    restart()
    commented = score(answers, written(tmp_path, "# The same.\n" + ENDS_WITH))
    restart()
    changed = score(answers, written(tmp_path, ENDS_WITH.replace('"."', '".!"')))

    assert first.label == commented.label != changed.label
    assert is_stale(first, again(answers))


def test_the_hash_covers_what_the_file_imports_from_our_scorers(tmp_path: Path):
    load_file(written(tmp_path))
    alone = source_hash("ends_with")
    restart()
    helped = "from regrade.scorers.extraction import wording\n" + ENDS_WITH
    load_file(written(tmp_path, helped))

    assert source_hash("ends_with") != alone


def test_a_scoring_by_a_file_that_is_not_given_is_not_stale(tmp_path: Path):
    answers = stored(tmp_path)
    file = score(answers, written(tmp_path))
    restart()

    assert not is_stale(file, again(answers))
    with pytest.raises(UnknownNameError, match=r"path/to/file\.py:name"):
        load_scorer("ends_with")


def test_a_class_of_a_file_is_a_scorer(tmp_path: Path):
    text = """
import pyarrow as pa
from regrade.scorers.base import score_each

class Shout:
    name, version, targets, columns = "shout", 4, "text", ("text", "target")
    description = unparsed = ""

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return score_each(batch, lambda answer, target: (answer, answer.isupper()))

shout = Shout
"""
    file = score(stored(tmp_path), written(tmp_path, text, "shout"))

    assert (file.scorer, file.version, file.summary.overall.accuracy) == ("shout", 4, 0.0)


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        (ENDS_WITH, "ends", "'mine.py' has no 'ends'; found 'ends_with'"),
        ("x = 1", "ends", "'mine.py' has no 'ends'; found no function"),
        (ENDS_WITH.replace("ends_with", "number"), "number", "belongs to another scorer"),
        (ENDS_WITH.replace("ends_with", "original"), "original", "belongs to another scorer"),
        (ENDS_WITH, "EndsWith", "should consist of a to z"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(tmp_path: Path, text: str, name: str, says: str):
    with pytest.raises(SettingsError, match=says):
        load_scorer(written(tmp_path, text, name))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def ends_with(answer:\n", "'mine.py', line 1 cannot be run: SyntaxError"),
        ("import absent_helper", "No module named 'absent_helper'. Shared code has to be"),
        ("1 / 0", "'mine.py' cannot be run: ZeroDivisionError: division by zero"),
        ("ends_with = 3", "'mine.py' is not the class of a scorer"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, text: str, says: str):
    with pytest.raises(PluginError, match=says):
        load_scorer(written(tmp_path, text))


def test_a_file_that_does_not_exist_is_refused():
    with pytest.raises(SettingsError, match=r"there is no file 'absent\.py'"):
        load_scorer("absent.py:mine")


def test_a_name_stands_for_one_file_and_for_no_installed_scorer(tmp_path: Path):
    load_scorer(written(tmp_path / "one"))

    assert "ends_with" not in scorer_names()
    with pytest.raises(SettingsError, match="already used for the scorer in"):
        load_scorer(written(tmp_path / "two"))


def test_a_dataset_is_scored_by_a_file(tmp_path: Path):
    (tmp_path / "q.jsonl").write_text(json.dumps({"question": "Which?", "answer": "1"}) + "\n")
    path, scorer = str(tmp_path / "q.jsonl"), written(tmp_path)

    benchmark = open_dataset(DatasetBenchmark(name="own", path=path, scorer=scorer))

    assert benchmark.scorers == ("ends_with",)
    assert str(tmp_path) not in benchmark.identity.model_dump_json()


def test_diff_compares_an_installed_scorer_with_a_file(tmp_path: Path):
    answers = stored(tmp_path)
    score(answers, "number")

    diff = diff_scorings(again(answers), "number", written(tmp_path))

    assert diff.after.label.startswith("ends_with-1-")
    assert (diff.overall.before, diff.overall.after) == (0.5, 0.5)


def test_diff_speaks_of_the_file_that_was_used_where_the_benchmarks_scorer_scored_nothing(
    tmp_path: Path,
):
    answers = stored(tmp_path)
    score(answers, written(tmp_path))

    says = "only scoring by 'ends_with'.*`--to FILE.py:ends_with`"
    with pytest.raises(SettingsError, match=says):
        diff_scorings(again(answers), None, None)


def test_the_commands_take_a_file(tmp_path: Path):
    repository = LocalRepository(tmp_path / "answers")
    answer(repository, "org/good", right=40)
    answer(repository, "org/bad", right=4)
    options = ("--scorer", written(tmp_path), "--answers", repository.uri)
    (first, _) = regrade("list", "--answers", repository.uri, "--json").document["answer_sets"]

    compared = regrade("compare", "org/good", "org/bad", *options)
    shown = regrade("show", first["answer_set_id"], "--limit", "1", *options, "--json")
    gated = regrade("gate", "org/bad", "--baseline", "org/good", *options, "--json")

    assert (compared.code, shown.code, gated.code) == (0, 0, 1)
    assert "both sides scored by ends_with v1" in compared.out.replace("\n", " ")
    assert shown.document["answers"][0]["outcome"] == "scored"
    comparison = gated.document["benchmarks"][0]["comparison"]
    assert comparison["scorer"].startswith("ends_with v1")


@pytest.mark.prefect
@pytest.mark.slow
def test_score_stores_the_scores_of_a_file(tmp_path: Path, prefect_api: str):
    answers = stored(tmp_path)
    command = ("score", "--answers", tmp_path / "answers", "--scorer", written(tmp_path))

    scored = regrade(*command, "--tracking-uri", f"sqlite:///{tmp_path}/mlflow.db", "--json")

    assert scored.code == 0, scored.err
    (found,) = scored.document["answer_sets"][0]["scores"]
    assert (found["scorer"], found["metrics"]["accuracy"]) == ("ends_with", 0.5)
    assert again(answers).scores()


def test_answers_that_wait_for_a_judge_are_kept_and_say_so(tmp_path: Path):
    rows = [row(1, "It is 1.")]
    answers = publish(LocalRepository(tmp_path / "answers"), rows, scorers=("judge",))

    with pytest.raises(SettingsError, match="A judge model grades these answers .* `regrade judge"):
        score(answers, "judge")
