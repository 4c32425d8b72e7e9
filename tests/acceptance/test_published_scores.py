"""Score real answers of real models again: the published scores, or the reason for each row that differs."""

import gzip
import json
import re
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from regrade.stats.metrics import Summary, summarise
from tests.scorers.batches import generations, scored

SHARED = Path(__file__).parents[2] / "../shared/data"
GENERATIONS = SHARED / "generations"

pytestmark = pytest.mark.skipif(
    not GENERATIONS.is_dir(), reason="the folder of real answers is not beside the repository"
)


def rights(scores: pa.RecordBatch) -> list[bool]:
    return [value == 1.0 for value in scores["value"].to_pylist()]


def rows_that_differ(ours: Sequence[object], theirs: Sequence[object]) -> list[int]:
    pairs = enumerate(zip(ours, theirs, strict=True))
    return [row for row, (own, other) in pairs if own != other]


def summary_of(scores: pa.RecordBatch) -> Summary:
    return summarise(pa.Table.from_batches([scores]), {})


# GSM8K: OpenAI's own answers


@cache
def openai_rows() -> list[dict[str, Any]]:
    lines = (GENERATIONS / "openai-gsm8k/solutions.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def openai_targets() -> list[str]:
    return [row["ground_truth"].rpartition("A:")[2].strip() for row in openai_rows()]


@pytest.mark.parametrize("model", ["6b_finetuning", "6b_verification"])
def test_a_strict_reading_finds_no_answer_where_there_are_no_hashes(model: str) -> None:
    solutions = [row[model]["solution"] for row in openai_rows()]

    overall = summary_of(scored("number_strict", generations(solutions, openai_targets()))).overall

    assert (overall.n, overall.unparsed, overall.accuracy) == (1319, 1319, 0.0)


def test_every_gold_solution_of_gsm8k_is_right() -> None:
    lines = (SHARED / "gsm8k/test.jsonl").read_text("utf-8").splitlines()
    solutions = [json.loads(line)["answer"] for line in lines]
    batch = generations(solutions, [text.rpartition("####")[2] for text in solutions])
    theirs = generations([row["ground_truth"] for row in openai_rows()], openai_targets())

    assert rights(scored("number", batch)) == [True] * 1319
    assert rights(scored("number_strict", batch)) == [True] * 1319
    assert rights(scored("number", theirs)) == [True] * 1319


# GSM8K: ZeroEval, whose answers are JSON with `reasoning` and `answer`


@cache
def zeroeval_rows(model: str) -> tuple[list[str], list[str]]:
    with gzip.open(GENERATIONS / f"zeroeval-gsm/{model}.json.gz") as file:
        rows = json.load(file)
    return [row["output"][0] for row in rows], [row["answer"] for row in rows]


def answer_field(output: str) -> str | None:
    """Return the value of the last `"answer"` of an output, even if the JSON around it is broken."""
    found = re.findall(r'"answer"\s*:\s*("(?:[^"\\]|\\.)*"|[^,}\n]+)', output)
    return found[-1].strip('"') if found else None


def first_number(text: str) -> float | None:
    """Return the first number of a text, as ZeroEval reads the field: 0.40 of `0.40 * 0.20 = 0.08`."""
    found = re.search(r"(-?\d+(?:\.\d+)?)(?:/(\d+)\Z)?", re.sub("[$,# ]", "", text))
    return float(found[1]) / float(found[2] or 1) if found else None


def published_rights(model: str) -> list[bool]:
    outputs, targets = zeroeval_rows(model)
    fields = [answer_field(output) for output in outputs]
    return [
        field is not None and first_number(field) == first_number(target)
        for field, target in zip(fields, targets, strict=True)
    ]


@pytest.mark.parametrize(
    ("model", "n", "percent", "differ"),
    [
        # 1285: "1,360 - (64 + 30 + 48) = 1,360 - 142 = 1,218" is read as 1,218, which is right; the first number
        # is wrong.
        ("Meta-Llama-3-8B-Instruct", 1319, "78.47", {1285: True}),
        ("Qwen2-7B-Instruct", 1319, "80.06", {}),
        # 797: "150 * 2 + 240 = 300 + 240 = 540". 698: three amounts are calculated, and the last
        # is the right answer.
        ("Mixtral-8x7B-Instruct-v0.1", 1319, "70.13", {698: True, 797: True}),
        ("gemini-1.5-flash-exp-0827", 681, "95.01", {}),
    ],
)
def test_number_reads_the_answer_of_json_without_being_told_of_json(
    model: str, n: int, percent: str, differ: dict[int, bool]
) -> None:
    outputs, targets = zeroeval_rows(model)
    theirs = published_rights(model)

    ours = rights(scored("number", generations(outputs, targets), "chat"))

    assert len(theirs) == n
    assert f"{100 * sum(theirs) / n:.2f}" == percent
    assert {row: ours[row] for row in rows_that_differ(ours, theirs)} == differ
    assert sum(ours) == sum(theirs) + len(differ)


def test_an_answer_that_ends_before_its_answer_field_is_never_right_by_chance() -> None:
    outputs, targets = zeroeval_rows("Mixtral-8x7B-Instruct-v0.1")
    without = [row for row, output in enumerate(outputs) if answer_field(output) is None]

    assert f"{100 * len(without) / len(outputs):.2f}" == "2.27"
    scores = scored("number", generations(outputs, targets)).take(pa.array(without))
    assert sum(rights(scores)) == 0


# MMLU-Pro


FIRST_THAT_DIFFERS: dict[int, tuple[str | None, str | None]] = {  # row: theirs, ours
    # The model gave no letter and continued with an invented question; the stored letter answers the invented question.
    2029: ("C", None),
    2490: ("J", None),
    # So here, but the model's answer is the text of a choice ("The answer is $23."), whose letter is read.
    45: ("I", "F"),
    160: ("G", "A"),
    # No letter is stored, but the model's answer is the text of a choice ("The answer is 100.").
    51: (None, "I"),
    11223: (None, "A"),  # right
    11592: (None, "B"),
    # No letter is stored, but the text calls one correct: "so (H) is correct".
    2984: (None, "H"),  # right
    10125: (None, "F"),
    # The letter is beyond the row's choices, of which there are 4 or 5.
    6583: ("E", None),
    7470: ("F", None),
    10511: ("F", None),
}
LAST_THAT_DIFFERS: dict[int, tuple[str | None, str | None]] = {
    **FIRST_THAT_DIFFERS,
    # "The correct answer is (A). ... The answer is (B).": the last counts, not the first.
    6154: ("A", "B"),
    11166: ("I", "E"),
    # "The answer is (E, F)", "The answer is (B), (C), (D), (G) and (I)": several letters are no answer.
    1209: ("E", None),  # theirs is right
    5072: ("B", None),  # theirs is right
    5636: ("D", None),  # theirs is right
    5901: ("D", None),
    5902: ("D", None),
    6157: ("C", None),
    6219: ("D", None),
    7136: ("A", None),
    10070: ("A", None),
    10421: ("A", None),
    10671: ("G", None),
    10854: ("F", None),  # theirs is right
}


LAST_CHANGED = {1209: False, 2984: True, 5072: False, 5636: False, 10854: False, 11223: True}


@pytest.mark.parametrize(
    ("scorer", "differ", "changed", "right", "unparsed"),
    [
        # The original code takes the first letter of the first statement, too.
        ("choice_letter_first", FIRST_THAT_DIFFERS, {2984: True, 11223: True}, 4114, 1290),
        ("choice_letter", LAST_THAT_DIFFERS, LAST_CHANGED, 4110, 1302),
    ],
)
def test_the_stored_letters_of_mmlu_pro_are_read_but_for_known_rows(
    scorer: str,
    differ: dict[int, tuple[str | None, str | None]],
    changed: dict[int, bool],
    right: int,
    unparsed: int,
) -> None:
    path = GENERATIONS / "mmlu-pro/model_outputs_Meta-Llama-3-8B_5shots.zip"
    with zipfile.ZipFile(path) as archive:
        rows = json.loads(archive.read(archive.namelist()[0]))
    theirs = [row["pred"] for row in rows]
    targets = [row["answer"] for row in rows]
    their_rights = [own == target for own, target in zip(theirs, targets, strict=True)]

    texts, choices = zip(*((row["generated_text"], row["options"]) for row in rows), strict=True)

    scores = scored(scorer, generations(texts, targets, choices=choices))
    ours = scores["extracted"].to_pylist()

    assert {row: (theirs[row], ours[row]) for row in rows_that_differ(ours, theirs)} == differ
    our_rights = rights(scores)
    assert {row: our_rights[row] for row in rows_that_differ(our_rights, their_rights)} == changed
    overall = summary_of(scores).overall
    assert (overall.n, sum(their_rights), sum(our_rights)) == (12032, 4112, right)
    assert (theirs.count(None), overall.unparsed) == (1290, unparsed)


# lm-evaluation-harness: three rows per file, too few for the accuracy of the full runs


@pytest.mark.parametrize("scorer", ["number", "number_strict"])
def test_number_agrees_with_the_harness_on_every_row_of_gsm8k(scorer: str) -> None:
    files = sorted((GENERATIONS / "lm-eval").glob("samples_gsm8k_*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    targets = [row["target"].rpartition("####")[2] for row in rows]

    scores = scored(scorer, generations([row["resps"][0][0] for row in rows], targets))

    assert len(rows) == 6
    assert scores["extracted"].to_pylist() == [row["filtered_resps"][0] for row in rows]
    assert rights(scores) == [row["exact_match"] == 1.0 for row in rows]
