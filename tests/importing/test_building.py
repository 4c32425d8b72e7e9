from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regrade.errors import SettingsError
from regrade.importing.base import ImportedRow, ImportedSet, OriginalScore, RowScore
from regrade.importing.building import Built, Names, benchmark_name, build
from regrade.importing.files import ImportFileError, SourceFile
from regrade.records import GENERATION_SCHEMA, SCORE_SCHEMA
from regrade.settings import ScorerName


def row(index: int = 0, target: str | None = "4", **changes: Any) -> ImportedRow:
    return replace(
        ImportedRow(index=index, question=f"q{index}", target=target, text="It is 4."), **changes
    )


@pytest.fixture
def file(tmp_path: Path) -> SourceFile:
    (tmp_path / "a.jsonl").write_text("{}\n")
    return SourceFile(tmp_path / "a.jsonl")


def built(
    file: SourceFile, *rows: ImportedRow, scorer: ScorerName | None = None, **changes: Any
) -> Built:
    found = ImportedSet(rows, model="org/model", benchmark="sums")
    return build(file, "table", replace(found, **changes), Names(scorer=scorer))


def targets(
    file: SourceFile, *rows: ImportedRow, scorer: ScorerName | None = None
) -> tuple[Any, list[Any]]:
    one = built(file, *rows, scorer=scorer)
    return one.description.scorers, one.table["target"].to_pylist()


def test_what_a_file_does_not_tell_is_unknown_and_not_ours(file: SourceFile):
    specified = built(file, row()).description.specification

    assert (specified.model.kind, specified.model.revision) == ("imported", "unknown")
    assert (specified.benchmark.version, specified.benchmark.source_revision) == (0, file.sha256)
    assert (specified.prompt.format, specified.prompt.n_shots, specified.sampling) == (
        None,
        None,
        None,
    )
    [kept] = built(file, row()).table.to_pylist()
    for name in (
        "prompt",
        "prompt_kind",
        "prompt_truncated",
        "finish_reason",
        "latency",
        "reasoning",
    ):
        assert kept[name] is None


def test_the_scorer_follows_from_the_targets(file: SourceFile):
    choices = ("red", "4")
    assert targets(file, row(target="so\n#### 1,234"), row(1, "-3")) == (
        ("number",),
        ["1234", "-3"],
    )
    assert targets(file, row(target="B", choices=choices)) == (("choice_letter",), ["B"])
    assert targets(file, row(target="1", choices=choices)) == (("choice_letter",), ["B"])
    assert targets(file, row(target="red", choices=choices)) == (("choice_letter",), ["A"])
    assert targets(file, row(target="C"), row(1, "A")) == (("choice_letter",), ["C", "A"])
    assert targets(file, row(target="4"), row(1, "four")) == (("exact",), ["4", "four"])
    assert targets(file, row(target="4"), row(1, None)) == (("exact",), ["4", None])


def test_a_scorer_that_was_asked_for_is_taken(file: SourceFile):
    assert targets(file, row(), scorer="number_strict")[0] == ("number_strict",)
    assert targets(file, row(target="B", choices=("a", "b")), scorer="exact") == (("exact",), ["B"])
    with pytest.raises(ImportFileError, match="row 1: the target 'four' is not a number"):
        targets(file, row(), row(1, "four"), scorer="number")


def test_a_target_that_could_be_two_choices_is_refused_until_a_person_says(file: SourceFile):
    with pytest.raises(ImportFileError, match="row 0: .*--scorer exact"):
        targets(file, row(target="1", choices=("1", "2")))


def test_ranked_choices_are_compared_by_log_probability(file: SourceFile):
    ranked = row(target="B", choices=("a", "b"), label_logprobs=(-2.0, -1.0), text=None)
    assert built(file, ranked, method="rank").description.scorers == ("choice_logprob",)


def test_a_cut_file_is_an_incomplete_answer_set(file: SourceFile):
    description = built(file, row(16), row(17), n_samples=1319).description
    assert description.n_samples == 1319
    assert built(file, row(0), row(1)).description.n_samples == 2


def test_equal_questions_keep_rows_of_their_own_and_repeats_share_one(file: SourceFile):
    table = built(file, row(0), row(1, question="q0"), row(1, question="q0", repeat=1)).table
    ids = table["sample_id"].to_pylist()
    assert ids[1] == ids[2] == f"{ids[0]}-2"
    assert table.schema == GENERATION_SCHEMA


def test_the_same_question_has_the_same_id_in_another_file(file: SourceFile, tmp_path: Path):
    (tmp_path / "b.jsonl").write_text("{ }\n")
    other = SourceFile(tmp_path / "b.jsonl")
    assert (
        built(file, row(3)).table["sample_id"]
        == built(other, row(8, question="q3")).table["sample_id"]
    )


def test_an_answer_that_is_there_twice_is_refused(file: SourceFile):
    with pytest.raises(ImportFileError, match="same repetition number"):
        built(file, row(0), row(0))


@pytest.mark.parametrize("what", ["model", "benchmark"])
def test_a_name_that_nobody_tells_is_asked_for(file: SourceFile, what: str):
    with pytest.raises(SettingsError, match=f"--{what} NAME"):
        built(file, row(), **{what: None})


def test_a_name_of_a_benchmark_is_one_component_of_a_path():
    assert benchmark_name("inspect_evals/MMLU 0-shot") == "inspect_evals-mmlu-0-shot"
    assert benchmark_name("../../etc/passwd") == "etc-passwd"
    assert len(benchmark_name("x" * 1000)) == 63
    with pytest.raises(SettingsError, match="cannot be a benchmark name"):
        benchmark_name("名前")


def test_the_originals_scores_are_kept_row_by_row(file: SourceFile):
    rows = [
        row(0, scores={"em": RowScore(1.0, "4")}),
        row(1, scores={"em": RowScore(0.0, None, unread=True)}, finish_reason="length"),
        row(2),
    ]
    [(original, scores)] = built(file, *rows, originals=(OriginalScore("em"),)).originals

    assert original.name == "em"
    assert scores.schema == SCORE_SCHEMA
    assert scores["value"].to_pylist() == [1.0, 0.0, None]
    assert scores["outcome"].to_pylist() == ["scored", "unparsed", "failed"]
    assert scores["extracted"].to_pylist() == ["4", None, None]
    assert scores["truncated"].to_pylist() == [False, True, False]


def test_a_scale_is_kept_as_a_share_and_what_lies_outside_as_the_number_alone(file: SourceFile):
    rows = [
        row(i, scores={"judge": RowScore(value)}) for i, value in enumerate([1.0, 2.0, 3.0, 9.5])
    ]
    [(_, scores)] = built(file, *rows, originals=(OriginalScore("judge", low=1, high=3),)).originals
    assert scores["value"].to_pylist() == [0.0, 0.5, 1.0, None]
    assert scores["extracted"].to_pylist() == [None, None, None, "9.5"]


def test_what_a_stranger_recorded_stays_small_and_finite(file: SourceFile):
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]
    sampling = {
        "t": float("nan"),
        "n": 10**30,
        "deep": deep,
        "long": "y" * 10**6,
        "ok": 0.5,
        "no": None,
    }
    specified = built(
        file, row(), recorded={"sampling": sampling, "dataset": None}
    ).description.specification

    kept = specified.benchmark.parameters["sampling"]
    assert kept["ok"] == 0.5
    assert (kept["t"], kept["n"], len(kept["long"])) == ("NaN", str(10**30), 1000)
    assert "no" not in kept
    assert "dataset" not in specified.benchmark.parameters
    assert len(specified.answer_set_id) == 16
