"""Benchmarks with images, on rows in the columns and types of their datasets."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from regrade.benchmarks import open_benchmark
from regrade.benchmarks.base import Benchmark
from regrade.benchmarks.questions.configs import SUBSET
from regrade.benchmarks.questions.targets import RowError
from regrade.records import Sample
from regrade.records.messages import parts_of
from regrade.settings.errors import SourceError
from tests.benchmarks import visual as made
from tests.benchmarks.visual import VISUAL, picture, write
from tests.scorers.batches import read


def opened(name: str, folder: Path) -> Benchmark:
    return open_benchmark(name, source=str(VISUAL[name](folder)))


def by_index(benchmark: Benchmark) -> list[Sample]:
    return sorted(benchmark.samples(), key=lambda sample: sample.index)


def shown(benchmark: Benchmark, sample: Sample) -> list[str | bytes]:
    """Return the parts of the only message: texts, and the bytes of images."""
    [message] = benchmark.prompt(sample)
    assert isinstance(message, dict)
    assert message["role"] == "user"
    images = {image.sha256: image.content for image in sample.images}
    parts = parts_of(message["content"], images)
    return [part.text if part.sha256 is None else images[part.sha256] for part in parts]


def of_row(name: str, folder: Path, row: dict[str, Any]) -> list[Sample]:
    """Return the questions of a file with this row alone."""
    split = {"docvqa": "validation", "mathvista": "testmini"}.get(name, "test")
    write(folder / f"{split}.parquet", [row])
    return list(open_benchmark(name, source=str(folder)).samples())


@pytest.fixture(scope="module")
def mmmu(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return opened("mmmu", tmp_path_factory.mktemp("mmmu"))


@pytest.mark.parametrize(
    ("name", "row", "text"),
    [
        (
            "chartqa",
            made.CHARTQA[0],
            "What is the value 0?\nAnswer the question with a single word.",
        ),
        (
            "docvqa",
            made.DOCVQA[0],
            "What is on line 0?\nAnswer the question using a single word or phrase.",
        ),
        ("mathvista", made.MATHVISTA[0], made.MATHVISTA[0]["query"]),
        ("ocrbench", made.OCRBENCH[0], "what is written in the image?"),
        ("realworldqa", made.REALWORLDQA[0], made.REALWORLDQA[0]["question"]),
    ],
)
def test_the_image_comes_first_and_then_the_question(
    tmp_path: Path, name: str, row: dict[str, Any], text: str
) -> None:
    benchmark = opened(name, tmp_path)
    image = row.get("image") if name != "mathvista" else row["decoded_image"]
    assert image is not None

    assert shown(benchmark, by_index(benchmark)[0]) == [image["bytes"], text]


def test_mmmu_shows_images_where_question_and_choices_name_them(mmmu: Benchmark) -> None:
    one, several, openly, _ = [s for s in by_index(mmmu) if s.subset == "Art"]

    assert shown(mmmu, one) == [
        "Question 1: what shows ",
        picture()["bytes"],
        " {x}?\nA. One\nB. Two's\nC. $f_1 = 3$\nD. Four\n\nAnswer with the option's letter from the given choices directly.",
    ]
    assert shown(mmmu, several) == [
        "Which of them follows ",
        picture()["bytes"],
        " and ",
        picture("blue")["bytes"],
        "?\nA. ",
        picture("green")["bytes"],
        "\nB. ",
        picture("black")["bytes"],
        "\n\nAnswer with the option's letter from the given choices directly.",
    ]
    assert shown(mmmu, openly)[-1] == (
        " {x}?\n\nAnswer the question using a single word or phrase."
    )


def test_mmmu_has_30_subjects_in_6_disciplines(mmmu: Benchmark) -> None:
    subsets = Counter(sample.subset for sample in mmmu.samples())

    assert len(subsets) == 30
    assert subsets["Art"] == 4
    assert len(mmmu.groups) == 6
    assert {subject for some in mmmu.groups.values() for subject in some} == {*subsets}


def test_an_open_question_of_mmmu_may_have_several_answers(mmmu: Benchmark) -> None:
    art = [sample for sample in by_index(mmmu) if sample.subset == "Art"]

    assert [sample.target for sample in art] == ["B", "A", "551", '["24/7", "3.429"]']
    assert [len(sample.choices) for sample in art] == [4, 2, 0, 0]


def test_an_image_that_no_text_names_comes_first(tmp_path: Path) -> None:
    source = VISUAL["mmmu_pro"](tmp_path)
    standard = source / "standard (10 options)" / "test.parquet"
    write(standard, [made.MMMU_PRO[0] | {"question": "What is it?"}])
    benchmark = open_benchmark("mmmu_pro", source=str(source))

    first, text = shown(benchmark, by_index(benchmark)[0])

    assert first == picture()["bytes"]
    assert str(text).startswith("What is it?\nA. choice A")


def test_mmmu_pro_asks_as_text_and_as_a_picture(tmp_path: Path) -> None:
    benchmark = opened("mmmu_pro", tmp_path)
    samples = by_index(benchmark)

    assert [sample.subset for sample in samples] == ["standard (10 options)"] * 2 + ["vision"] * 2
    assert [sample.target for sample in samples] == ["J", "C", "D", "D"]
    assert [len(sample.choices) for sample in samples] == [10, 3, 10, 10]
    before, _, after = shown(benchmark, samples[0])
    assert before == "Question 1: what shows "
    assert str(after).startswith(" {x}?\nA. choice A\n")
    assert str(after).endswith("Think step by step before answering.")
    image, text = shown(benchmark, samples[2])
    assert image == picture()["bytes"]
    assert str(text).startswith("Write out the multiple-choice question in the image")
    assert "choice A" not in str(text)


def test_targets_of_mathvista_have_the_decimals_that_are_asked_for(tmp_path: Path) -> None:
    samples = by_index(opened("mathvista", tmp_path))

    assert [sample.target for sample in samples] == ["1.2", "1.50", "14", "[2007, 2008]", "C"]
    assert {sample.subset for sample in samples} == {"textbook question answering"}


def test_chartqa_tells_people_and_machines_apart(tmp_path: Path) -> None:
    samples = by_index(opened("chartqa", tmp_path))

    assert [sample.subset for sample in samples] == ["human", "machine"] * 2
    assert [sample.target for sample in samples] == ["14", "Yes", "0.57", "12.5%"]


def test_docvqa_accepts_several_answers_and_keeps_a_page_once(tmp_path: Path) -> None:
    one, other = by_index(opened("docvqa", tmp_path))

    assert [one.target, other.target] == ["0.28", '["ITC Limited", "itc limited"]']
    assert one.images[0] is other.images[0]


def test_choices_of_realworldqa_are_read_from_the_question(tmp_path: Path) -> None:
    samples = by_index(opened("realworldqa", tmp_path))

    assert [sample.choices for sample in samples] == [("Left", "Straight", "Right"), (), ()]
    assert [sample.target for sample in samples] == ["B", "2", "Yes"]


def right_answers(name: str, sample: Sample) -> list[str]:
    if name == "mathvista" and sample.target == "1.2":
        return ["1.2", "It moves 1.23 m.", "Answer: 1.18"]
    if name == "chartqa" and sample.target == "0.57":
        return ["0.57", "The answer is 57%.", "0.55"]
    target = {"docvqa": "ITC Limited", "mmmu": "So it is 24/7"}.get(name, sample.target)
    if name == "ocrbench":
        return [f"It says {target.removeprefix('[').split(', ')[0].strip('[]').strip(chr(34))}"]
    return [target if sample.target.startswith('["') else sample.target]


@pytest.mark.parametrize("name", VISUAL)
def test_a_right_answer_is_right(tmp_path: Path, name: str) -> None:
    benchmark = opened(name, tmp_path)

    for sample in benchmark.samples():
        for text in right_answers(name, sample):
            for scorer in benchmark.scorers:
                changes = {"choices": sample.choices, "subset": sample.subset}
                row = read(scorer, text, sample.target, **changes)
                assert row["value"] == 1.0, (text, sample.target)


def test_another_picture_makes_another_question(tmp_path: Path) -> None:
    [red] = of_row("chartqa", tmp_path, made.CHARTQA[0])
    [blue] = of_row("chartqa", tmp_path, made.CHARTQA[0] | {"image": picture("blue")})

    assert red.id != blue.id


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("chartqa", {"query": " "}, "the question is ' '; expected a text"),
        ("chartqa", {"label": []}, "column 'label' is '[]'; expected one or several texts"),
        ("docvqa", {"answers": None}, "column 'answers' is 'None'"),
        ("docvqa", {"image": {"bytes": b"GIF89a", "path": None}}, "it is no PNG, JPEG or WebP"),
        ("mathvista", {"question_type": "other"}, "question_type is 'other'"),
        ("mathvista", {"answer": "far"}, "the answer is 'far' with answer_type 'integer'"),
        ("mathvista", {"answer": "[1]"}, "the answer is '[1]' with answer_type 'integer'"),
        ("mathvista", {"answer_type": "float"}, "the precision is None; expected a number"),
        ("mathvista", {"query": None}, "the query is None"),
        ("ocrbench", {"question_type": None}, "the question_type is None; expected a text"),
        ("realworldqa", {"answer": ""}, "the answer is ''; expected a text"),
    ],
)
def test_a_row_that_cannot_be_asked_is_refused(
    tmp_path: Path, name: str, changes: dict[str, Any], message: str
) -> None:
    rows = {
        "chartqa": made.CHARTQA,
        "docvqa": made.DOCVQA,
        "mathvista": made.MATHVISTA[2:],
        "ocrbench": made.OCRBENCH,
        "realworldqa": made.REALWORLDQA,
    }

    with pytest.raises(SourceError) as found:
        of_row(name, tmp_path, {**rows[name][0], **changes})

    assert message in str(found.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"options": "['one', 2]"},
            "column 'options' is \"['one', 2]\"; expected a list of up to 26 texts",
        ),
        ({"options": "__import__('os')"}, "column 'options' is"),
        ({"answer": "E"}, "the answer is 'E'; expected a letter from A to D"),
        ({"question": "What is <image 2>?"}, "the text names <image 2>, which the row lacks"),
        ({"question_type": "essay"}, "question_type is 'essay'"),
        ({"image_1": None, "question": "What?"}, "it has no image in image_1"),
    ],
)
def test_a_row_of_mmmu_that_contradicts_itself_is_refused(
    changes: dict[str, Any], message: str
) -> None:
    benchmark: Any = open_benchmark("mmmu")
    rows = [{**row, SUBSET: "Art"} for row in (made.MMMU[0], made.mmmu_row(2, **changes))]

    with pytest.raises(RowError) as found:
        benchmark.read(rows)

    assert found.value.row == 1
    assert message in found.value.problem


def test_the_columns_of_one_setting_are_not_missed_in_the_other(tmp_path: Path) -> None:
    source = VISUAL["mmmu_pro"](tmp_path)
    write(source / "vision" / "test.parquet", made.MMMU_PRO)

    with pytest.raises(SourceError, match="there is no column 'image'"):
        open_benchmark("mmmu_pro", source=str(source)).samples()


def test_images_that_belong_to_others_are_not_copied() -> None:
    stay = {name for name in VISUAL if open_benchmark(name).images_stay}

    assert stay == {"docvqa", "mmmu", "mmmu_pro", "ocrbench"}
