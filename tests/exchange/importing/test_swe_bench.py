"""Predictions of SWE-bench with their results: a report as version 5.0.2 writes it, and one of its published experiments."""

from pathlib import Path
from typing import Any

import pytest

from regrade.exchange.importing.base import Reported
from regrade.exchange.importing.files import ImportFileError
from tests.exchange.importing.writing import document, jsonl, read, read_sets

PATCH = "diff --git a/x b/x\n"
TURNS = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "Fix the bug."},
    {"role": "assistant", "content": "ls"},
    {"role": "user", "content": "x"},
    {"role": "assistant", "content": "done"},
]


def prediction(number: int, patch: str | None = PATCH, model: str = "org/m") -> dict[str, Any]:
    return {"instance_id": f"a__b-{number}", "model_name_or_path": model, "model_patch": patch}


def report(folder: Path, run: str = "r1", model: str = "org__m", **changes: Any) -> Path:
    found = {
        "total_instances": 4,
        "submitted_ids": ["a__b-0", "a__b-1", "a__b-2"],
        "resolved_ids": ["a__b-2"],
        "unresolved_ids": ["a__b-1"],
        "empty_patch_ids": ["a__b-0"],
        "schema_version": 2,
    } | changes
    return document(folder / f"{model}.{run}.json", found)


def test_a_patch_is_an_answer_and_resolved_its_score(tmp_path: Path):
    report(tmp_path)
    report(tmp_path, model="org__other")  # of another model
    path = jsonl(tmp_path / "preds.jsonl", prediction(0, ""), prediction(1), prediction(2))
    found = read(path)
    assert (found.model, found.benchmark, found.n_samples) == ("org/m", "swe-bench", 4)
    assert [(o.name, o.reported) for o in found.originals] == [("resolved", Reported(0.25, n=4))]
    assert [row.text for row in found.rows] == ["", PATCH, PATCH]
    assert [row.scores["resolved"].value for row in found.rows] == [0.0, 0.0, 1.0]
    assert [row.content for row in found.rows] == ["a__b-0", "a__b-1", "a__b-2"]


def test_several_evaluations_are_several_scores(tmp_path: Path):
    report(tmp_path)
    report(tmp_path, "r2", resolved_ids=[], submitted_ids=["a__b-1"])
    found = read(jsonl(tmp_path / "preds.jsonl", prediction(1), prediction(2)))
    assert [o.name for o in found.originals] == ["resolved (r1)", "resolved (r2)"]
    assert "resolved (r2)" not in found.rows[1].scores  # it was not evaluated there


def test_what_the_agent_did_lies_beside_its_patches(tmp_path: Path):
    document(tmp_path / "a__b-1" / "a__b-1.traj.json", {"info": {}, "messages": TURNS})
    document(tmp_path / "trajs" / "a__b-2.traj", {"trajectory": [], "history": TURNS})
    found = read(document(tmp_path / "preds.json", {f"a__b-{n}": prediction(n) for n in (1, 2, 3)}))
    assert [len(row.trajectory or ()) for row in found.rows] == [3, 3, 0]
    assert [row.question for row in found.rows] == ["Fix the bug.", "Fix the bug.", "a__b-3"]
    assert found.rows[0].text == PATCH


def test_published_results_are_read_from_their_folder(tmp_path: Path):
    document(tmp_path / "results" / "results.json", {"no_generation": [], "resolved": ["a__b-1"]})
    found = read(jsonl(tmp_path / "all_preds.jsonl", prediction(1), prediction(2)))
    assert [row.scores["resolved"].value for row in found.rows] == [1.0, 0.0]


def test_models_of_a_file_are_answer_sets_of_their_own(tmp_path: Path):
    found = read_sets(jsonl(tmp_path / "p.jsonl", prediction(1), prediction(1, model="org/n")))
    assert [made.model for made in found] == ["org/m", "org/n"]


def test_a_report_alone_and_a_damaged_trajectory_are_refused(tmp_path: Path):
    with pytest.raises(ImportFileError, match="a report has no answers"):
        read(report(tmp_path))
    (tmp_path / "trajs").mkdir()
    (tmp_path / "trajs" / "a__b-1.traj").write_text("{")
    with pytest.raises(ImportFileError, match=r"a__b-1\.traj'.*not JSON"):
        read(jsonl(tmp_path / "preds.jsonl", prediction(1)))
