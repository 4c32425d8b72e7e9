"""Scores of IFEval and IFBench over stored answers."""

import inspect
import json
import random
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.processes.limited import Limits
from regrade.scorers.instructions import scorer
from regrade.scorers.instructions.checking import _library, check
from regrade.scoring.score import score_answers
from regrade.settings.errors import SettingsError
from tests.builders import row
from tests.scorers.instructions.nltk_folder import nltk_path
from tests.scorers.instructions.test_checking import INSTRUCTIONS
from tests.scorers.test_any_text import check as check_scores
from tests.scorers.test_any_text import mutated, real_answers
from tests.stored import publish, score

pytestmark = pytest.mark.usefixtures("nltk_data")
NO_COMMA = {"id": "punctuation:no_comma", "kwargs": {}}
WORDS = {
    "id": "length_constraints:number_words",
    "kwargs": {"num_words": 4, "relation": "at least"},
}
TEXTS = (
    "Four words without any.",
    "Well, four words or more",
    "Sure, now:\nfour words without any.",
    "  ",
)


def document(*instructions: dict[str, Any]) -> str:
    return json.dumps({"key": 1, "prompt": "Write.", "instructions": list(instructions)})


def stored(folder: Path, *rows: dict[str, Any], **changes: Any) -> AnswerSet:
    return publish(LocalRepository(folder / "answers"), list(rows), scorers=("ifeval",), **changes)


def rows(*texts: str, instructions: str = document(NO_COMMA, WORDS)) -> list[dict[str, Any]]:
    return [row(n, text) | {"doc": instructions} for n, text in enumerate(texts, 1)]


def test_an_answer_is_right_if_it_follows_all_instructions(tmp_path: Path):
    scored = score_answers(stored(tmp_path, *rows(*TEXTS)), "ifeval")
    found = scored.table.to_pylist()

    words = "length_constraints:number_words"
    assert [(score["outcome"], score["value"], score["extracted"]) for score in found] == [
        ("scored", 1.0, f"punctuation:no_comma, {words}"),
        *[("scored", 0.0, words)] * 2,
        ("unparsed", 0.0, None),
    ]
    followed = {"prompt_strict": 0, "prompt_loose": 1, "followed_strict": 1, "followed_loose": 2}
    assert json.loads(found[2]["metrics"]) == {"instructions": 2, **followed}


def test_the_blank_line_after_a_thought_is_no_paragraph_of_the_answer(tmp_path: Path):
    kwargs = {"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "first"}
    first = {"id": "length_constraints:nth_paragraph_first_word", "kwargs": kwargs}
    answer = "First this.\n\nThen that."
    texts = (answer, f"<think>\nWell.\n</think>\n\n{answer}", f"\n\n{answer}")
    scored = score_answers(stored(tmp_path, *rows(*texts, instructions=document(first))), "ifeval")

    assert scored.table["value"].to_pylist() == [1, 1, 0]


def test_the_four_numbers_of_the_paper_are_stored(tmp_path: Path):
    texts = ("Sure, here it is:\nA line.", "A, b.", "A line.")
    both = row(9, "Yes.") | {"doc": document(NO_COMMA, WORDS)}
    file = score(stored(tmp_path, *rows(*texts, instructions=document(NO_COMMA)), both), "ifeval")

    assert file.summary.overall.accuracy == 0.25
    metrics = file.summary.metrics
    assert (metrics["prompt_strict"].value, metrics["prompt_loose"].value) == (0.25, 0.5)
    by_name = {result.name: (result.value, result.n) for result in file.aggregates}
    assert by_name == {"instruction_strict": (2 / 5, 5), "instruction_loose": (3 / 5, 5)}


def test_ifbench_counts_what_is_followed_loosely(tmp_path: Path):
    words = {"id": "count:word_count_range", "kwargs": {"min_words": 2, "max_words": 3}}
    texts = ("Of course, here you are:\nTwo words", "One two three four five")
    answers = stored(tmp_path, *rows(*texts, instructions=document(words)))

    file = score(answers, "ifbench")

    assert file.summary.overall.accuracy == 0.5
    assert file.summary.metrics["prompt_strict"].value == 0.0


def test_reasoning_is_not_checked(tmp_path: Path):
    texts = ("<think>Well, hm, so</think>Four words without any.", "<think>Well, hm")

    file = score(stored(tmp_path, *rows(*texts)), "ifeval")

    assert file.summary.overall.accuracy == 0.5
    assert file.summary.overall.unfinished == 1


def test_a_failed_request_is_missing_and_so_is_an_instruction_that_cannot_be_checked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    unknown = document({"id": "punctuation:no_dots", "kwargs": {}})
    failed = row(3) | {"text": None, "error": "too long", "doc": document(NO_COMMA)}
    answers = stored(tmp_path, *rows("A b c d"), row(2, "x") | {"doc": unknown}, failed)

    overall = score(answers, "ifeval").summary.overall

    assert (overall.rows, overall.n, overall.failed, overall.accuracy) == (3, 1, 2, 1.0)
    assert "sample 'sample-00002' is not scored: instruction 'punctuation:no_dots'" in caplog.text


def test_an_answer_that_takes_too_long_is_a_timeout_and_the_others_are_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(scorer, "LIMITS", Limits(cpu_seconds=1.0, seconds=20.0, memory=1 << 30))
    name, given = "detectable_content:number_placeholders", {"num_placeholders": 1}
    placeholders = {"id": name, "kwargs": given}
    texts = ("[name]", "[" * 100_000, "none")  # a pattern looks for `]` behind each `[`

    file = score(stored(tmp_path, *rows(*texts, instructions=document(placeholders))), "ifeval")

    overall = file.summary.overall
    assert (overall.n, overall.timeouts, overall.accuracy) == (3, 1, 1 / 3)


def test_answers_without_instructions_are_refused(tmp_path: Path):
    says = r"needs the instructions of each request .column `doc`., which sample"
    with pytest.raises(SettingsError, match=says):
        score(stored(tmp_path, row(1)), "ifeval")


def test_the_data_is_part_of_the_label(tmp_path: Path):
    answers = stored(tmp_path, *rows("A b c d"))

    file = score(answers, "ifeval")

    versions, limits = {"if-verifiable", "nltk", "langdetect"}, {"cpu_seconds", "memory_mib"}
    assert set(file.environment) == {*versions, *limits, "punkt_tab"}
    assert file.label.startswith("ifeval-3-")
    assert file.label != file.code_label


def test_without_the_data_the_command_is_named_and_nothing_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("nltk.data.path", [str(tmp_path)])
    monkeypatch.setattr("nltk.download", lambda *_, **__: pytest.fail("a download"))

    says = "`python -m nltk.downloader punkt_tab`, or copy it into a folder"
    with pytest.raises(SettingsError, match=says):
        score(stored(tmp_path, *rows("A b c d")), "ifeval")


ARGUMENTS: dict[str, Any] = {
    "N": 3,
    "n": 3,
    "m": 2,
    "small_n": 1,
    "percentage": 10,
    "min_words": 2,
    "max_words": 20,
    "n_start": 1,
    "n_end": 3,
    "keyword": "house",
    "word": "garden",
    "sep": "...",
    "options": "yes/no",
    "reference_text": "A house.",
    **{f"keyword{n}": f"word{n}" for n in range(1, 6)},
    "prompt_to_repeat": "Write.",
}


def every_instruction(benchmark: str) -> str:
    """Return a request with all instructions of a benchmark that can be checked."""
    if benchmark == "ifeval":
        return document(*({"id": name, "kwargs": given} for name, given in INSTRUCTIONS))
    task = {"benchmark": benchmark, "data": nltk_path(), "prompt": "Write.", "answer": ""}
    found = []
    for name, checker in _library(benchmark, tuple(nltk_path()))[0].items():
        read = inspect.signature(checker.build_description).parameters
        given = {key: ARGUMENTS[key] for key in read if key in ARGUMENTS}
        instruction = {"id": name, "kwargs": given}
        if "unusable" not in check({**task, "instructions": [instruction]}):
            found.append(instruction)
    assert len(found) > 50
    return document(*found)


@pytest.mark.parametrize(
    "count", [5, pytest.param(20_000, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])]
)
@pytest.mark.parametrize("benchmark", ["ifeval", "ifbench"])
def test_changed_answers_are_checked(benchmark: str, count: int) -> None:
    texts, instructions = real_answers(), every_instruction(benchmark)
    drawn = random.Random(count)
    for start in range(0, count, 100):
        answers = [
            mutated(drawn.choice(texts), start + n, texts) for n in range(min(count - start, 100))
        ]
        check_scores(benchmark, answers, doc=instructions)
