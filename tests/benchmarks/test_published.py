"""Published benchmarks on rows in the columns of their datasets."""

import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from regrade.benchmarks import open_benchmark
from regrade.benchmarks.base import Benchmark
from regrade.benchmarks.questions.targets import RowError
from regrade.settings.errors import SourceError
from tests.benchmarks import rows as made
from tests.benchmarks.files import write_jsonl, write_parquet
from tests.benchmarks.rows import CHATS, FOLDERS
from tests.scorers.batches import read


def opened(name: str, folder: Path) -> Benchmark:
    return open_benchmark(name, source=str({**FOLDERS, **CHATS}[name](folder)))


def targets(name: str, folder: Path) -> list[str]:
    return [sample.target for sample in opened(name, folder).samples()]


def error(name: str, folder: Path, row: dict[str, Any]) -> str:
    """Return the error of a benchmark whose only row is this one."""
    split = "test" if name == "mmlu_pro" else "train"
    write_jsonl(folder / f"{split}.jsonl", [row])
    with pytest.raises(SourceError) as found:
        open_benchmark(name, source=str(folder / f"{split}.jsonl")).samples()
    return str(found.value)


def test_leading_zeros_of_the_aime_do_not_count(tmp_path: Path) -> None:
    assert targets("aime_2024", tmp_path) == ["33", "204", "0"]


def test_numbers_as_text_and_as_numbers_are_the_same_target(tmp_path: Path) -> None:
    assert targets("aime_2026", tmp_path) == ["277", "62", "7"]


@pytest.mark.parametrize("answer", ["1000", "-1", "12.5", "x", "", None, True, [1, 2]])
def test_an_answer_that_is_no_answer_of_the_aime_is_refused(tmp_path: Path, answer: object) -> None:
    row = {**made.AIME_2024[0], "answer": answer}

    assert "row 0 (from 0)" in error("aime_2024", tmp_path, row)


def test_an_answer_may_be_a_list_of_one(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "train.jsonl", [{**made.HMMT[0], "answer": ["103"]}])

    assert open_benchmark("hmmt_feb_2025", source=str(path)).samples()[0].target == "103"


@pytest.mark.parametrize("problem", [None, "  ", 3])
def test_a_problem_that_is_no_text_is_refused(tmp_path: Path, problem: object) -> None:
    message = error("hmmt_feb_2025", tmp_path, {**made.HMMT[0], "problem": problem})

    assert f"the problem is {problem!r}" in message


def test_math_500_has_its_subjects(tmp_path: Path) -> None:
    subsets = Counter(sample.subset for sample in opened("math_500", tmp_path).samples())

    assert subsets == {"Precalculus": 2, "Intermediate Algebra": 1, "Algebra": 1, "Prealgebra": 1}


@pytest.mark.parametrize(
    ("name", "repeats"),
    [
        ("aime_2026", 16),
        ("hmmt_feb_2026", 4),
        ("gpqa_diamond", 8),
        ("math_500", 1),
        ("mmlu_pro", 1),
    ],
)
def test_repeats_and_sampling_are_those_that_people_quote(name: str, repeats: int) -> None:
    benchmark = open_benchmark(name)

    assert benchmark.repeats == repeats
    assert (benchmark.sampling.temperature > 0) >= (repeats > 1)


def test_choices_of_gpqa_are_shuffled_by_the_question(tmp_path: Path) -> None:
    samples = opened("gpqa_diamond", tmp_path).samples()

    assert len({sample.target for sample in samples}) > 1
    for sample in samples:
        assert sample.choices["ABCD".index(sample.target)] == "10^-4 eV"
        assert sorted(sample.choices) == sorted(samples[0].choices)
    again = open_benchmark("gpqa_diamond", source=str(tmp_path), limit=3).samples()
    orders = {sample.id: sample.choices for sample in samples}
    assert [orders[sample.id] for sample in again] == [sample.choices for sample in again]


def test_a_choice_of_gpqa_that_is_missing_is_refused(tmp_path: Path) -> None:
    path = write_parquet(
        tmp_path / "train.parquet", [made.GPQA[0], {**made.GPQA[1], "Incorrect Answer 2": None}]
    )

    with pytest.raises(SourceError, match=r"row 1 \(from 0\).*'Incorrect Answer 2' is None"):
        open_benchmark("gpqa_diamond", source=str(path)).samples()


def test_mmlu_pro_has_up_to_10_choices_and_drops_those_that_fill_up(tmp_path: Path) -> None:
    samples = {s.index: s for s in opened("mmlu_pro", tmp_path).samples()}

    assert [len(samples[index].choices) for index in range(3)] == [10, 3, 3]
    assert [samples[index].target for index in range(3)] == ["I", "C", "C"]
    assert samples[2].choices == ("yes", "no", "maybe")


def test_mmlu_pro_shows_5_worked_examples_of_the_category_with_their_reasoning(
    tmp_path: Path,
) -> None:
    benchmark = opened("mmlu_pro", tmp_path)
    law = next(sample for sample in benchmark.samples() if sample.subset == "law")

    messages = benchmark.prompt(law)

    assert isinstance(messages, tuple)
    assert [message["role"] for message in messages] == ["user", "assistant"] * 5 + ["user"]
    assert "law 0?" in messages[0]["content"]
    assert messages[1]["content"] == "Let's think step by step about 0. The answer is (A)."
    assert messages[-1]["content"].endswith("J. choice J")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answer": "B"}, "the answer is 'B', but answer_index 8 is I"),
        ({"answer_index": True}, "answer_index is True; expected a number from 0 to 9"),
        ({"answer_index": 10}, "answer_index is 10; expected a number from 0 to 9"),
        ({"options": ["one"]}, "there are 1 choices"),
        ({"category": None}, "the category is None"),
    ],
)
def test_a_row_of_mmlu_pro_that_contradicts_itself_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    write_jsonl(tmp_path / "validation.jsonl", made.MMLU_PRO_SHOTS)

    assert message in error("mmlu_pro", tmp_path, {**made.MMLU_PRO[0], **changes})


def test_mmlu_redux_leaves_out_what_experts_found_wrong_and_says_how_many(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "regrade.plan"):
        samples = opened("mmlu_redux", tmp_path).samples()

    assert len(samples) == 57 * 2
    assert len({sample.subset for sample in samples}) == 57
    assert [sample.index for sample in samples[:3]] == [1, 3, 5]
    assert "mmlu_redux: 114 of 228 rows are left out: error_type is not `ok`" in caplog.text


def test_a_right_choice_of_mmlu_redux_that_is_none_is_refused() -> None:
    benchmark: Any = open_benchmark("mmlu_redux")

    with pytest.raises(RowError, match="the answer is 4; expected a number"):
        benchmark.choices(0, {**made.REDUX[1], "answer": 4})


def test_a_folder_without_a_configuration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "DE_DE").mkdir()

    with pytest.raises(SourceError, match=r"one for each configuration.*'AR_XY' is missing"):
        open_benchmark("mmmlu", source=str(tmp_path))


def test_the_identity_of_several_configurations_covers_all_of_them(tmp_path: Path) -> None:
    before = opened("mmmlu", tmp_path).identity
    write_parquet(tmp_path / "ZH_CN" / "test.parquet", made.MMMLU[:1])

    after = open_benchmark("mmmlu", source=str(tmp_path)).identity

    assert before.source_revision != after.source_revision
    assert (before.source, before.config) == ("local", None)


def test_mmmlu_has_14_languages_and_leaves_out_rows_without_a_choice(tmp_path: Path) -> None:
    samples = opened("mmmlu", tmp_path).samples()

    assert Counter(sample.subset for sample in samples) == Counter(
        dict.fromkeys(made.LANGUAGES.values(), 2)
    )
    assert {sample.target for sample in samples} == {"A", "C"}
    assert samples[0].choices == ("eins", "zwei", "None", "vier")


def test_supergpqa_has_a_varying_number_of_choices(tmp_path: Path) -> None:
    samples = opened("supergpqa", tmp_path).samples()

    assert [len(sample.choices) for sample in samples] == [4, 10, 4, 10]
    assert [sample.target for sample in samples] == ["A", "B", "C", "D"]


@pytest.mark.parametrize("letter", ["K", "", None, "AB", 1])
def test_a_letter_of_no_choice_is_refused(tmp_path: Path, letter: object) -> None:
    row = {**made.SUPERGPQA[0], "answer_letter": letter}

    assert "answer_letter is" in error("supergpqa", tmp_path, row)


def test_longbench_v2_asks_with_the_words_of_its_authors(tmp_path: Path) -> None:
    benchmark = opened("longbench_v2", tmp_path)
    first = next(sample for sample in benchmark.samples() if sample.index == 0)

    [message] = benchmark.prompt(first)

    assert message["content"].startswith(
        "Please read the following text and answer the question below.\n\n<text>\n0: {x} $DOC$ A long"
    )
    assert message["content"].endswith(
        "A long report.\n</text>\n\nWhat is the correct answer to this question: What does table 0 show?\nChoices:\n"
        "(A) Sales {net}\n(B) Costs\n(C) Both\n(D) Neither\n\n"
        'Format your response as follows: "The correct answer is (insert answer here)".'
    )
    assert {sample.subset for sample in benchmark.samples()} == {"short", "medium", "long"}
    assert benchmark.cut == "middle"


def test_mrcr_sends_the_conversation_and_keeps_the_random_text(tmp_path: Path) -> None:
    benchmark = opened("mrcr", tmp_path)
    samples = benchmark.samples()

    assert [message["role"] for message in benchmark.prompt(samples[0])] == [
        "user",
        "assistant",
        "user",
    ]
    assert samples[0].question == "Prepend aYooSG8CQ0 to the 1st poem about tapirs."
    assert samples[0].doc == {"random_string_to_prepend": "aYooSG8CQ0"}
    assert [sample.subset for sample in samples] == ["2 needles", "4 needles", "8 needles"]


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("mrcr", {"prompt": "no JSON"}, "the prompt is 'no JSON'"),
        ("mrcr", {"prompt": "[]"}, "the prompt is '[]'"),
        ("mrcr", {"answer": "Tapirs"}, "expected a text that begins with 'aYooSG8CQ0'"),
        ("longbench_v2", {"answer": "E"}, "the answer is 'E'; expected a letter from A to D"),
        ("longbench_v2", {"context": None}, "the context is None"),
    ],
)
def test_a_row_about_long_texts_that_cannot_be_asked_is_refused(
    tmp_path: Path, name: str, changes: dict[str, Any], message: str
) -> None:
    row = {"mrcr": made.MRCR, "longbench_v2": made.LONGBENCH_V2}[name][0]

    assert message in error(name, tmp_path, {**row, **changes})


@pytest.mark.parametrize("form", ["The correct answer is ({}).", "**The correct answer is {}**"])
def test_answers_in_the_form_that_longbench_v2_asks_for_are_right(
    tmp_path: Path, form: str
) -> None:
    for sample in opened("longbench_v2", tmp_path).samples():
        row = read(
            "choice_letter", form.format(sample.target), sample.target, choices=sample.choices
        )
        assert row["value"] == 1.0


def test_the_answer_of_the_dataset_is_right_for_mrcr(tmp_path: Path) -> None:
    for sample in opened("mrcr", tmp_path).samples():
        assert (
            read("mrcr", sample.target, sample.target, doc=json.dumps(sample.doc))["value"] == 1.0
        )
