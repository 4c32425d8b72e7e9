"""Traces of agents, imported from folders: compared, gated, labelled and judged like other answers."""

import csv
import json
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.answers.verify import verify
from regrade.cli.main import run
from regrade.comparing.comparison import CompareOptions, compare_sets
from regrade.exchange.importing.base import Columns, TableOptions
from regrade.exchange.importing.building import Names
from regrade.exchange.importing.files import ImportFileError
from regrade.exchange.importing.importer import Imports, import_files
from regrade.records.trajectory import read_trajectory
from regrade.scoring.originals import first_scorer
from regrade.settings.errors import SettingsError
from tests.exchange.importing import (
    test_harbor,
    test_swe_bench,
    test_terminal_bench,
    test_verifiers,
)
from tests.exchange.importing.test_swe_bench import prediction, report
from tests.exchange.importing.writing import document, jsonl
from tests.stored import again, numbers, publish


def solved(folder: Path, model: str, *resolved: int) -> Path:
    """Predictions of a model for ten issues, and which of them it resolved."""
    ids = [f"a__b-{n}" for n in range(10)]
    report(
        folder,
        model=model.replace("/", "__"),
        submitted_ids=ids,
        resolved_ids=[ids[n] for n in resolved],
        total_instances=10,
    )
    return jsonl(folder / "preds.jsonl", *(prediction(n, model=model) for n in range(10)))


def two_sides(repository: LocalRepository, tmp_path: Path) -> tuple[AnswerSet, AnswerSet]:
    paths = [solved(tmp_path / "a", "org/a", *range(9)), solved(tmp_path / "b", "org/b", 0, 1)]
    # At the commit that holds their scores, too.
    base, candidate = (again(kept.answers) for kept in import_files(repository, paths).sets)
    return base, candidate


def test_a_folder_of_runs_is_imported_without_a_word_about_their_other_files(
    repository: LocalRepository, tmp_path: Path
):
    runs = tmp_path / "runs"
    test_harbor.job(runs / "harbor")
    document(runs / "harbor" / "config.json", {})
    (runs / "harbor" / "a" / "agent" / "broken.json").write_text("{")
    (runs / "harbor" / "a" / "agent" / "notes.jsonl").write_text("no JSON")
    test_terminal_bench.run(runs / "tb", test_terminal_bench.trial("hello", True))
    (runs / "tb" / "hello" / "t" / "panes").mkdir(parents=True)
    document(runs / "tb" / "hello" / "t" / "results.json", {"task_id": "hello"})
    test_verifiers.evaluation(runs / "vf", test_verifiers.rollout())
    solved(runs / "swe", "org/a", 1)
    document(runs / "swe" / "a__b-1" / "a__b-1.traj.json", {"messages": test_swe_bench.TURNS})
    document(runs / "swe" / "logs" / "run_evaluation" / "r1" / "report.json", {"a__b-1": {}})
    imports = import_files(repository, [runs])
    assert [kept.format for kept in imports.sets] == [
        *("harbor", "swe-bench", "terminal-bench", "verifiers")
    ]
    assert (imports.skipped, imports.failed) == ((), ())
    assert [len(kept.originals) for kept in imports.sets] == [1, 1, 1, 2]
    assert verify(repository, imports.revision).problems == []
    assert import_files(repository, [runs]).revision == imports.revision


def test_a_trajectory_is_stored_beside_the_answer(repository: LocalRepository, tmp_path: Path):
    [one] = import_files(repository, [test_harbor.job(tmp_path / "j")]).sets
    [batch] = one.answers.batches(["text", "trajectory", "prompt"])
    stored = batch.to_pylist()[0]
    assert stored["text"] == "Done."
    assert [m.role for m in read_trajectory(stored["trajectory"]) or ()] == [
        *("assistant", "tool", "assistant")
    ]
    assert json.loads(stored["prompt"]) == [{"content": "Fix it.", "role": "user"}]


def test_nothing_is_written_of_a_run_with_a_damaged_part(
    repository: LocalRepository, tmp_path: Path
):
    path = test_harbor.job(tmp_path / "j")
    (tmp_path / "j" / "b" / "agent" / "trajectory.json").write_text("{")
    with pytest.raises(ImportFileError, match=r"b/agent/trajectory\.json': not JSON"):
        import_files(repository, [path])
    assert not (tmp_path / "answers").exists()


def test_imported_results_are_compared_by_the_scores_of_their_tool(
    repository: LocalRepository, tmp_path: Path
):
    base, candidate = two_sides(repository, tmp_path)
    assert first_scorer(base) == "original"
    found = compare_sets(base, candidate, CompareOptions()).comparison
    assert (found.base.accuracy, found.candidate.accuracy) == (0.9, 0.2)
    assert (found.right_to_wrong, found.wrong_to_right, found.n) == (7, 0, 10)


def test_a_gate_finds_the_regression_of_an_agent(
    repository: LocalRepository, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    base, candidate = (s.manifest.answer_set_id for s in two_sides(repository, tmp_path))
    arguments = ["--baseline", base, "--answers", repository.uri, "--json"]
    with pytest.raises(SystemExit) as ended:
        run(["gate", candidate, *arguments, "--max-drop", "26"])
    assert ended.value.code == 1
    [verdict] = json.loads(capfd.readouterr().out)["benchmarks"]
    assert verdict["verdict"] == "regression"
    assert run(["compare", base, candidate, "--scorer", "original", *arguments[2:]]) == 0


def test_original_scores_of_other_metrics_are_not_compared(
    repository: LocalRepository, tmp_path: Path
):
    base, _ = two_sides(repository, tmp_path)
    generated = publish(repository, numbers(0, 3))
    options = CompareOptions(scorer="original", allow=("benchmark", "prompt", "sampling"))
    with pytest.raises(SettingsError, match=r"\(sums.*\) has no original scores"):
        compare_sets(generated, generated, options)
    rows = [{"text": "x", "q": f"{n}", "right": 1} for n in range(3)]
    columns = Columns(text="text", question="q", score="right")
    names = Names(model="m", benchmark="swe-bench")
    path = jsonl(tmp_path / "t.jsonl", *rows)
    [other] = import_files(repository, [path], table=TableOptions(columns), names=names).sets
    with pytest.raises(SettingsError, match="none is of the same tool and metric"):
        compare_sets(base, again(other.answers), options)


def test_an_agents_answers_are_labelled_beside_the_scores_of_its_tool(
    repository: LocalRepository, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    base, _ = two_sides(repository, tmp_path)
    set_id, sheet = base.manifest.answer_set_id, tmp_path / "sheet.csv"
    common = ["label", set_id, "--answers", repository.uri]
    assert run([*common, "--out", str(sheet)]) == 0
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["question"] for row in rows} == {f"a__b-{n}" for n in range(10)}
    with sheet.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(row | {"label": "right"} for row in rows)
    assert run([*common, "--read", str(sheet), "--rater", "ann"]) == 0
    capfd.readouterr()
    assert run([*common, "--report"]) == 0
    assert "10 answers" in capfd.readouterr().out


def score_range(repository: LocalRepository, path: Path, low: float, high: float) -> Imports:
    columns = Columns(text="text", score="grade")
    options = TableOptions(columns, score_range=(low, high))
    return import_files(repository, [path], table=options, names=Names("m", "b"))


def test_a_stated_scale_is_that_of_the_score(repository: LocalRepository, tmp_path: Path):
    path = jsonl(tmp_path / "t.jsonl", {"text": "x", "grade": 1}, {"text": "y", "grade": 4})
    [one] = score_range(repository, path, 1, 5).sets
    original = one.originals[0].original
    assert original is not None
    assert (original.low, original.high) == (1, 5)
    assert one.originals[0].summary.overall.accuracy == 0.375
    with pytest.raises(SettingsError, match="`--score-range 5 1`: the worst value comes first"):
        score_range(repository, path, 5, 1)
