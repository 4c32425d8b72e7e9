from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import find_set, list_sets
from regrade.answers.verify import verify
from regrade.exchange.importing import building
from regrade.exchange.importing.base import Columns, ImportedSet, TableOptions
from regrade.exchange.importing.building import Names, read_targets
from regrade.exchange.importing.files import ImportFileError, SourceFile
from regrade.exchange.importing.importer import Imports, import_files
from regrade.scoring.score import is_stale, score_answers
from regrade.settings import ScorerName
from regrade.settings.errors import SettingsError, UserError
from tests.benchmarks.programming import CONTEST_ROWS
from tests.exchange.importing.test_helm import scenario_of, state
from tests.exchange.importing.test_inspect_log import log
from tests.exchange.importing.test_lm_eval import TIME, results, sample
from tests.exchange.importing.test_opencompass import PREDICTIONS
from tests.exchange.importing.test_swe_bench import prediction
from tests.exchange.importing.writing import document, jsonl, parquet

COLUMNS = Columns(text="text", question="q", target="gold", score="right")
NAMES = Names(model="org/model", benchmark="sums")


def table(path: Path, n: int = 3) -> Path:
    rows = [{"text": f"It is {i}.", "q": f"{i}?", "gold": i, "right": i > 0} for i in range(n)]
    return jsonl(path, *rows)


def imported(repository: LocalRepository, *paths: Path, names: Names = NAMES) -> Imports:
    return import_files(repository, paths, table=TableOptions(COLUMNS), names=names)


def test_imported_answers_are_graded_like_any_others(repository: LocalRepository, tmp_path: Path):
    [one] = imported(repository, table(tmp_path / "a.jsonl")).sets
    ours = score_answers(one.answers, one.answers.manifest.scorers[0]).file

    assert one.answers.manifest.state == "complete"
    assert (ours.scorer, ours.summary.overall.accuracy) == ("number", 1.0)
    assert one.originals[0].summary.overall.accuracy == pytest.approx(2 / 3)


def test_the_originals_scores_lie_beside_ours_and_are_never_stale(
    repository: LocalRepository, tmp_path: Path
):
    imports = imported(repository, table(tmp_path / "a.jsonl"))
    [entry] = list_sets(repository, imports.revision)
    [original] = entry.scores()

    assert (
        original.label == f"original-1-{entry.manifest.specification.benchmark.source_revision[:8]}"
    )
    assert original.title == "original (table right)"
    assert not is_stale(original, entry)
    assert entry.score_table(original)["value"].to_pylist() == [0.0, 1.0, 1.0]
    assert verify(repository, imports.revision).problems == []


def test_importing_a_file_again_changes_nothing(repository: LocalRepository, tmp_path: Path):
    path = table(tmp_path / "a.jsonl")
    first = imported(repository, path)
    again = imported(repository, path, path)
    renamed = imported(repository, path.rename(tmp_path / "b.jsonl"))

    assert repository.head() == first.revision == again.revision == renamed.revision
    assert len(again.sets) == 1


def test_an_original_score_that_cannot_be_read_is_written_again_and_told(
    repository: LocalRepository, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = table(tmp_path / "a.jsonl")
    [one] = imported(repository, path).sets
    score = f"{one.answers.scores_folder}/{one.originals[0].label}.json"
    repository.commit({score: b"{"}, "damage", parent=repository.head())

    head = imported(repository, path).revision

    assert (
        f"a scoring cannot be read; one that came with this file is written again: '{score}'"
        in caplog.text
    )
    assert verify(repository, head).problems == []


def test_two_benchmarks_do_not_become_one(repository: LocalRepository, tmp_path: Path):
    paths = [tmp_path / f"samples_{task}_{TIME}.jsonl" for task in ("a_b", "A_b", "c")]
    for path in paths:
        jsonl(path, sample(0, ["4"], 1.0))
    found = import_files(repository, paths, names=Names(model="org/model"))
    assert found.benchmarks == {"a_b": "a_b", "c": "c"}
    [error] = found.failed
    assert "the benchmarks 'a_b' and 'A_b' would both be named 'a_b'" in str(error)


def test_many_files_make_two_commits(
    repository: LocalRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    commits = []
    commit = repository.commit

    def counted(additions, message, *, parent, removed=()):
        commits.append(message)
        return commit(additions, message, parent=parent, removed=removed)

    monkeypatch.setattr(repository, "commit", counted)
    imported(repository, *(table(tmp_path / f"{n}.jsonl", n) for n in range(1, 6)))

    assert commits == ["Imported answers: 5 answer sets", "Scorings: 5"]


def broken(path: Path) -> Path:
    return jsonl(path, {"text": "x", "q": "y", "gold": "z", "right": "maybe"})


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_imported(
    repository: LocalRepository, tmp_path: Path
):
    good, other = table(tmp_path / "a.jsonl"), table(tmp_path / "z.jsonl", 4)
    imports = imported(repository, good, broken(tmp_path / "b.jsonl"), other)

    assert [answer_set.place for answer_set in imports.sets] == [str(good), str(other)]
    [error] = imports.failed
    assert "b.jsonl', row 0: 'right' should be" in str(error)
    assert len(list_sets(repository, imports.revision)) == 2


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"text": "x", "doc": "[" * 100_000}, "row 0: 'doc' should be JSON"),
        (
            {"text": "x", "doc": {**CONTEST_ROWS[0], "public_test_cases": "[" * 100_000}},
            "nested too deeply",
        ),
        ({"text": "x", "doc": CONTEST_ROWS[0] | {"metadata": "[1]"}}, "row 0: its document"),
    ],
)
def test_a_document_that_cannot_be_used_leaves_the_other_files_alone(
    repository: LocalRepository, tmp_path: Path, row: dict[str, Any], says: str
):
    good, bad = jsonl(tmp_path / "a.jsonl", {"text": "x", "doc": "{}"}), tmp_path / "b.jsonl"
    columns = TableOptions(Columns(text="text", doc="doc"))
    found = import_files(repository, [jsonl(bad, row), good], table=columns, names=NAMES)
    assert [kept.place for kept in found.sets] == [str(good)]
    assert [says in str(error) for error in found.failed] == [True]


def test_models_of_a_file_do_not_become_one_by_a_name_of_the_user(
    repository: LocalRepository, tmp_path: Path
):
    path = jsonl(tmp_path / "p.jsonl", prediction(1), prediction(2, model="org/n"))
    with pytest.raises(ImportFileError, match="several models or benchmarks, which `--model`"):
        import_files(repository, [path], names=Names(model="org/other"))
    assert len(import_files(repository, [path]).sets) == 2


def test_all_or_nothing_writes_nothing_where_one_file_cannot_be_read(
    repository: LocalRepository, tmp_path: Path
):
    paths = (table(tmp_path / "a.jsonl"), broken(tmp_path / "b.jsonl"))
    with pytest.raises(ImportFileError, match=r"b\.jsonl', row 0: 'right' should be"):
        import_files(repository, paths, table=TableOptions(COLUMNS), names=NAMES, strict=True)
    assert repository.head() is None
    assert not (tmp_path / "answers").exists()


def test_all_or_nothing_takes_a_file_of_unknown_format_for_one_that_cannot_be_read(
    repository: LocalRepository, tmp_path: Path
):
    folder = tmp_path / "run"
    results(folder)
    jsonl(folder / f"samples_sums_{TIME}.jsonl", sample(0, "0", 1.0))
    (folder / "LICENSE").write_text("MIT")
    assert import_files(repository, [folder], strict=True).sets
    other = jsonl(folder / "other.jsonl", {"a": 1})
    with pytest.raises(ImportFileError, match=r"other\.jsonl': its format is not known"):
        import_files(repository, [folder], strict=True)
    assert import_files(repository, [folder]).skipped == tuple(
        map(str, (folder / "LICENSE", other))
    )


def test_where_no_file_can_be_read_every_reason_is_named(
    repository: LocalRepository, tmp_path: Path
):
    paths = (broken(tmp_path / "a.jsonl"), jsonl(tmp_path / "b.jsonl", {"q": "no text"}))
    with pytest.raises(
        UserError, match=r"(?s)None of the files.*a\.jsonl', row 0.*b\.jsonl', row 0"
    ):
        imported(repository, *paths)
    assert repository.head() is None


def test_a_second_file_is_added_to_a_repository_with_answers(
    repository: LocalRepository, tmp_path: Path
):
    first = imported(repository, table(tmp_path / "a.jsonl", 2))
    second = imported(repository, table(tmp_path / "b.jsonl", 1))

    assert second.revision != first.revision
    assert [entry.manifest.rows for entry in list_sets(repository, second.revision)] == [2, 1]
    card = (repository.folder / "README.md").read_text()
    assert all(
        imports.sets[0].answers.manifest.answer_set_id in card for imports in (first, second)
    )


def test_a_file_that_an_earlier_version_read_differently_keeps_its_stored_rows(
    repository: LocalRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = table(tmp_path / "a.jsonl")
    first = imported(repository, path)
    monkeypatch.setattr(building, "read_targets", other_targets)
    again = imported(repository, path)

    [entry] = list_sets(repository, again.revision)
    assert (again.revision, entry.manifest.rows) == (first.revision, 3)
    [error] = again.failed
    assert "an earlier version of regrade imported it" in str(error)
    assert verify(repository, again.revision).problems == []


def other_targets(
    file: SourceFile, found: ImportedSet, wanted: ScorerName | None
) -> tuple[list[str | None], ScorerName]:
    targets, scorer = read_targets(file, found, wanted)
    return ["0" for _ in targets], scorer


def test_fields_of_the_rows_that_are_not_imported_are_named_once(
    repository: LocalRepository, tmp_path: Path
):
    samples = [
        jsonl(tmp_path / f"{n}.jsonl", sample(n, "1", 1.0), sample(9, "", 0)) for n in (1, 2)
    ]
    both = imported(repository, table(tmp_path / "a.jsonl")).not_imported
    assert both == {}
    named = import_files(repository, samples, names=NAMES).not_imported
    assert named == {"lm-eval": ("arguments.gen_args_0.arg_1", "doc.answer")}


def test_an_answer_without_a_usable_target_is_kept_with_its_original_score(
    repository: LocalRepository, tmp_path: Path
):
    rows = [
        {"text": "B", "q": f"{gold}?", "gold": gold, "right": True, "options": ["x", "y"]}
        for gold in ("(B)", "A", "Z")
    ]
    options = TableOptions(COLUMNS.model_copy(update={"choices": "options"}))
    imports = import_files(
        repository, [jsonl(tmp_path / "a.jsonl", *rows)], table=options, names=NAMES
    )
    [one] = imports.sets
    [batch] = one.answers.batches(["target", "text", "question"])

    assert batch["target"].to_pylist() == ["B", "A", None]
    assert (batch["text"].to_pylist(), batch["question"][2].as_py()) == (["B"] * 3, "Z?")
    assert (one.originals[0].summary.overall.n, one.without_target) == (3, 1)
    assert [row.target for row in one.unusable] == ["Z"]


def test_a_cut_file_is_incomplete_and_keeps_what_was_reported_apart(
    repository: LocalRepository, tmp_path: Path
):
    results(tmp_path)
    path = jsonl(tmp_path / f"samples_sums_{TIME}.jsonl", sample(1, "1", 1.0), sample(2, "2", 1.0))
    [one] = import_files(repository, [path]).sets
    [file] = one.originals

    assert (one.answers.manifest.state, one.answers.manifest.n_samples) == ("incomplete", 4)
    assert (file.summary.overall.accuracy, file.summary.overall.n) == (1.0, 2)
    assert file.original is not None
    assert (file.original.reported, file.original.reported_n) == (0.5, 4)
    assert file.title == "original (lm-eval exact_match,strict-match, reported 50.0 %, n = 4)"
    card = (repository.folder / "README.md").read_text()
    assert "reported 50.0 %, n = 4" in card
    results(tmp_path, results={"sums": {"exact_match,strict-match": 35.2}})
    [[original]] = (
        kept.originals for kept in import_files(LocalRepository(tmp_path / "b"), [path]).sets
    )
    assert original.title == "original (lm-eval exact_match,strict-match)"


def test_several_scorings_of_one_file_are_kept_apart(repository: LocalRepository, tmp_path: Path):
    rows = [sample(0, "It is 0.", 0.0), sample(0, "It is 0.", 1.0, filter="flexible-extract")]
    path = jsonl(tmp_path / "samples.jsonl", *rows)
    imports = import_files(repository, [path], names=NAMES)
    [entry] = list_sets(repository, imports.revision)

    names = {
        score.original.name: score.summary.overall.accuracy
        for score in entry.scores()
        if score.original
    }
    assert names == {"exact_match,strict-match": 0.0, "exact_match,flexible-extract": 1.0}


def test_a_log_without_samples_is_an_answer_set_without_answers(
    repository: LocalRepository, tmp_path: Path
):
    log(tmp_path)
    imports = import_files(repository, [tmp_path / "log.json"])
    [one] = imports.sets

    assert (one.answers.manifest.rows, one.answers.manifest.state) == (0, "incomplete")
    assert find_set(repository, one.answers.manifest.specification, imports.revision) is not None
    assert one.originals[0].original is not None
    assert one.originals[0].original.reported == 0.75
    assert one.originals[0].summary.overall.accuracy is None
    assert verify(repository, imports.revision).problems == []


def test_answers_without_a_right_answer_are_kept_and_not_called_wrong(
    repository: LocalRepository, tmp_path: Path
):
    path = parquet(
        tmp_path / "m-results.parquet", [{"prompt": "Why?", "answers": "So.", "accuracy": 2}]
    )
    [one] = import_files(repository, [path], names=Names(benchmark="llmtwin")).sets

    assert one.originals[0].summary.overall.accuracy == 0.5
    with pytest.raises(SettingsError, match="nothing to compare with"):
        score_answers(one.answers, "exact")


def test_files_that_told_facts_about_others_are_not_among_the_skipped(
    repository: LocalRepository, tmp_path: Path
):
    folder = tmp_path / "evals"
    document(folder / "run" / "scenario_state.json", scenario_of(state()))
    document(folder / "run" / "run_spec.json", {"name": "gsm:model=x"})
    document(folder / "run" / "per_instance_stats.json", [{"instance_id": "id0", "stats": []}])
    document(folder / "predictions/llama-3/sums.json", PREDICTIONS)
    document(folder / "results/llama-3/sums.json", {"accuracy": 50.0, "details": {}})

    imports = import_files(repository, [folder])
    assert sorted(answer_set.format for answer_set in imports.sets) == ["helm", "opencompass"]
    assert (imports.skipped, imports.failed) == ((), ())


def test_a_folder_gives_what_is_known_and_names_the_rest(
    repository: LocalRepository, tmp_path: Path
):
    folder = tmp_path / "evals"
    results(folder / "deep")
    jsonl(folder / "deep" / f"samples_sums_{TIME}.jsonl", sample(0, "0", 1.0))
    (folder / "LICENSE").write_text("MIT")
    (folder / "outside.jsonl").symlink_to(table(tmp_path / "secret.jsonl"))

    imports = import_files(repository, [folder])
    assert [answer_set.format for answer_set in imports.sets] == ["lm-eval"]
    assert imports.skipped == (str(folder / "LICENSE"),)


def test_what_cannot_be_imported_says_what_to_do(repository: LocalRepository, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    path = jsonl(tmp_path / "a.jsonl", {"x": 1})
    for paths, says in (
        ([tmp_path / "nowhere"], "nowhere' does not exist"),
        ([tmp_path / "empty"], "nothing to import in .*Formats: lm-eval"),
        ([path], "format is not known.*--column.text"),
    ):
        with pytest.raises((SettingsError, ImportFileError), match=says):
            import_files(repository, paths)
    assert repository.head() is None
