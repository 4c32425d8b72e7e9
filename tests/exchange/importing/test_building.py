from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regrade.exchange.importing.base import ImportedRow, ImportedSet, OriginalScore, RowScore
from regrade.exchange.importing.building import Built, Names, benchmark_name, build
from regrade.exchange.importing.files import ImportFileError, SourceFile
from regrade.records.columns import GENERATION_SCHEMA, SCORING_SCHEMA
from regrade.settings import ScorerName
from regrade.settings.errors import SettingsError


def row(index: int = 0, target: str | None = "4", **changes: Any) -> ImportedRow:
    return replace(
        ImportedRow(index=index, content=f"q{index}", target=target, text="It is 4."), **changes
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
    assert targets(file, row(target="(C)"), row(1, "A")) == (("choice_letter",), ["C", "A"])
    assert targets(file, row(target="4"), row(1, None)) == (("number",), ["4", None])
    assert targets(file, row(target=None)) == (("exact",), [None])
    assert targets(file, row(target=4), row(1, "four")) == (("exact",), ["4", "four"])


def test_a_scorer_that_was_asked_for_is_taken(file: SourceFile):
    assert targets(file, row(), scorer="number_strict")[0] == ("number_strict",)
    assert targets(file, row(target="B", choices=("a", "b")), scorer="exact") == (("exact",), ["B"])
    with pytest.raises(ImportFileError, match="row 1: the target 'four' is not a number"):
        targets(file, row(), row(1, "four"), scorer="number")


def test_a_target_that_could_be_two_choices_is_refused_until_a_person_says(file: SourceFile):
    with pytest.raises(ImportFileError, match="row 0: .*--scorer exact"):
        targets(file, row(target="1", choices=("1", "2")))


def test_a_target_of_most_rows_is_read_where_a_few_have_none(file: SourceFile):
    choices = ("red", "green")
    rows = [row(i, target, choices=choices) for i, target in enumerate(["(B)", "[A]", "C", None])]
    one = built(file, *rows)
    assert one.table["target"].to_pylist() == ["B", "A", None, None]
    assert [lost.target for lost in one.unusable] == ["C"]

    rows = [row(i, target) for i, target in enumerate(["1", "2", "two"])]
    assert targets(file, *rows, scorer="number") == (("number",), ["1", "2", None])


def test_a_number_is_an_index_of_choices_and_else_a_number(file: SourceFile):
    digits = ("1", "0", "2")
    assert targets(file, row(target=1, choices=digits)) == (("choice_letter",), ["B"])
    assert targets(file, row(target=1), row(1, 2.5)) == (("number",), ["1", "2.5"])


def test_ranked_choices_without_a_usable_target_keep_their_log_probabilities(file: SourceFile):
    ranked = row(target="c", choices=("a", "b"), label_logprobs=(-2.0, -1.0), text=None)
    one = built(file, ranked, method="rank")
    [kept] = one.table.to_pylist()
    assert (kept["target"], kept["label_logprobs"]) == (None, [-2.0, -1.0])
    assert (one.description.scorers, one.unusable) == (("choice_logprob",), (ranked,))


def test_the_text_of_the_question_is_kept_where_the_file_has_it(file: SourceFile):
    known, unknown = built(file, row(0, question="2+2?"), row(1)).table["question"].to_pylist()
    assert (known, unknown) == ("2+2?", None)


@pytest.mark.parametrize(
    ("target", "extracted", "value", "outcome"),
    [
        ("#### 1,000", "1000.0", 1.0, "scored"),
        ("5", "$5.00", 1.0, "scored"),
        ("5", "6", 0.0, "scored"),
        ("5", "?", 0.0, "scored"),
        ("5", None, 0.0, "unparsed"),
        (None, "5", None, "failed"),
    ],
)
def test_an_extracted_answer_is_compared_with_the_target(
    file: SourceFile, target: str | None, extracted: str | None, value: float, outcome: str
):
    name = "final equals target"
    rows = [
        row(0, target, scores={name: RowScore(None, extracted)}),
        row(1, "7", scores={name: RowScore(None, "7")}),
        row(2, "7", text=None, scores={name: RowScore(None, "7")}),
    ]
    one = built(file, *rows, originals=(OriginalScore(name, by_target=True),))
    [(_, scores)] = one.originals
    assert scores["value"].to_pylist() == [value, 1.0, None]
    assert scores["outcome"].to_pylist() == [outcome, "scored", "failed"]
    assert scores["extracted"].to_pylist()[1] == "7"


def test_an_extracted_choice_is_compared_with_the_letter(file: SourceFile):
    choices = ("red", "green")
    rows = [
        row(i, target, choices=choices, scores={"x": RowScore(None, extracted)})
        for i, (target, extracted) in enumerate([("red", "A"), ("green", "green"), ("green", "A")])
    ]
    [(_, scores)] = built(file, *rows, originals=(OriginalScore("x", by_target=True),)).originals
    assert scores["value"].to_pylist() == [1.0, 1.0, 0.0]


def test_a_cut_file_is_an_incomplete_answer_set(file: SourceFile):
    description = built(file, row(16), row(17), n_samples=1319).description
    assert description.n_samples == 1319
    assert built(file, row(0), row(1)).description.n_samples == 2


def test_equal_questions_keep_rows_of_their_own_and_repeats_share_one(file: SourceFile):
    table = built(file, row(0), row(1, content="q0"), row(1, content="q0", repeat=1)).table
    ids = table["sample_id"].to_pylist()
    assert ids[1] == ids[2] == f"{ids[0]}-2"
    assert table.schema == GENERATION_SCHEMA


def test_the_same_question_has_the_same_id_in_another_file(file: SourceFile, tmp_path: Path):
    (tmp_path / "b.jsonl").write_text("{ }\n")
    other = SourceFile(tmp_path / "b.jsonl")
    assert (
        built(file, row(3)).table["sample_id"]
        == built(other, row(8, content="q3")).table["sample_id"]
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
    assert scores.schema == SCORING_SCHEMA
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


def test_a_score_whose_scale_is_not_known_has_no_mean(
    file: SourceFile, caplog: pytest.LogCaptureFixture
):
    rows = [row(i, scores={"bleu": RowScore(value)}) for i, value in enumerate([35.2, 0.5])]
    [(_, scores)] = built(file, *rows, originals=(OriginalScore("bleu"),)).originals
    assert scores["value"].to_pylist() == [None, None]
    assert scores["extracted"].to_pylist() == ["35.2", "0.5"]
    assert "scale of the score 'bleu' is not known" in caplog.text


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
