"""Rows of benchmarks with images in the columns and types of their datasets, made up, as parquet files with `datasets`' own features."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from regrade.benchmarks.mmmu import SUBJECTS
from tests.benchmarks.files import Rows
from tests.pictures import file_of

NUMBERED = [f"image_{number}" for number in range(1, 8)]


def picture(color: str = "red", kind: str = "PNG") -> dict[str, Any]:
    return {"bytes": file_of(kind, color, (6, 4)), "path": f"{color}.{kind.lower()}"}


def mmmu_row(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"validation_Art_{number}",
        "question": f"Question {number}: what shows <image 1> {{x}}?",
        "options": "['One', \"Two's\", '$f_1 = 3$', 'Four']",
        "explanation": "",
        **dict.fromkeys(NUMBERED),
        "image_1": picture(),
        "img_type": "['Diagrams']",
        "answer": "B",
        "topic_difficulty": "Easy",
        "question_type": "multiple-choice",
        "subfield": "Drawing",
    } | changes


MMMU: Rows = [
    mmmu_row(1),
    mmmu_row(
        2,
        question="Which of them follows <image 1> and <image 2>?",
        options="['<image 3>', '<image 4>']",
        image_2=picture("blue"),
        image_3=picture("green"),
        image_4=picture("black"),
        answer="A",
    ),
    mmmu_row(3, options="[]", answer="551", question_type="open"),
    mmmu_row(4, options="[]", answer="['24/7', '3.429']", question_type="open"),
]
_PRO = {
    name: value for name, value in mmmu_row(1).items() if name not in ("question_type", "subfield")
}
TEN = [f"choice {letter}" for letter in "ABCDEFGHIJ"]
MMMU_PRO: Rows = [
    _PRO | {"options": str(TEN), "answer": "J", "subject": "Art"},
    _PRO | {"options": str(TEN[:3]), "answer": "C", "subject": "Art"},
]
MMMU_PRO_VISION: Rows = [
    {
        "id": f"test_Art_{number}",
        "image": picture(color),
        "options": str(TEN),
        "answer": "D",
        "subject": "Art",
    }
    for number, color in enumerate(("red", "blue"))
]


def mathvista_row(pid: str, **changes: Any) -> dict[str, Any]:
    return {
        "pid": pid,
        "question": "How far does it move?",
        "image": f"images/{pid}.jpg",
        "decoded_image": picture("red", "JPEG"),
        "choices": None,
        "unit": None,
        "precision": None,
        "answer": "14",
        "question_type": "free_form",
        "answer_type": "integer",
        "metadata": {"grade": "college", "task": "textbook question answering"},
        "query": "Hint: Please answer the question requiring an integer answer and provide the final value, e.g., 1, 2, 3, at the "
        f"end.\nQuestion: How far does it move ({pid})?",
    } | changes


MATHVISTA: Rows = [
    mathvista_row("1", answer="1.2", answer_type="float", precision=1.0),
    mathvista_row("2", answer="1.5", answer_type="float", precision=2.0),
    mathvista_row("3"),
    mathvista_row("4", answer="[2007, 2008]", answer_type="list"),
    mathvista_row(
        "5",
        answer="145°",
        answer_type="text",
        question_type="multi_choice",
        choices=["135°", "140°", "145°", "150°"],
    ),
]
CHARTQA: Rows = [
    {
        "image": picture(),
        "query": f"What is the value {number}?",
        "label": [label],
        "human_or_machine": number % 2,
    }
    for number, label in enumerate(("14", "Yes", "0.57", "12.5%"))
]
DOCVQA: Rows = [
    {
        "questionId": str(49153 + number),
        "question": f"What is on line {number}?",
        "question_types": ["layout"],
        "image": picture("white"),
        "docId": 14465,
        "ucsf_document_id": "pybv0228",
        "ucsf_document_page_no": "81",
        "answers": answers,
        "data_split": "val",
    }
    for number, answers in enumerate((["0.28"], ["ITC Limited", "itc limited"]))
]
OCRBENCH: Rows = [
    {
        "dataset": dataset,
        "question": question,
        "question_type": kind,
        "answer": answer,
        "image": picture("red", "JPEG"),
    }
    for dataset, question, kind, answer in (
        ("IIIT5K", "what is written in the image?", "Regular Text Recognition", ["CENTRE"]),
        ("DocVQA", "What is the date?", "Doc-oriented VQA", ["1/8/93", "1/8/1993"]),
        (
            "HME100k",
            "Please write out the expression of the formula in the image using LaTeX format.",
            "Handwritten Mathematical Expression Recognition",
            ["\\frac { 1 } { 2 } X"],
        ),
    )
]
ASKED = "Please answer directly with only the letter of the correct option and nothing else."
REALWORLDQA: Rows = [
    {
        "image": picture("red", "WEBP"),
        "question": f"Where does the road go?\n\nA. Left\nB. Straight\nC. Right\n{ASKED}",
        "answer": "B",
    },
    {
        "image": picture("blue", "WEBP"),
        "question": "How many cars?\nPlease answer directly with a single word or number.",
        "answer": "2",
    },
    {"image": picture("green", "WEBP"), "question": "Is it uphill?", "answer": "Yes"},
]
IMAGES = (*NUMBERED, "image", "decoded_image")
CLASSES = {"human_or_machine": ["human", "machine"]}


def write(path: Path, rows: Rows) -> Path:
    """Write rows as the Hub has them: with the features of `datasets` in the file's metadata."""
    from datasets import ClassLabel, Dataset, Features, Image, Value

    plain = Dataset.from_list(
        [{k: v for k, v in row.items() if not _is_picture(k, row)} for row in rows]
    ).features
    features: dict[str, Any] = {}
    for name in rows[0]:
        if name in IMAGES and _is_picture(name, rows[0]):
            features[name] = Image()
        elif name in CLASSES:
            features[name] = ClassLabel(names=CLASSES[name])
        else:
            features[name] = plain[name]
            if getattr(plain[name], "dtype", "") == "null":
                features[name] = Value("string")
    path.parent.mkdir(parents=True, exist_ok=True)
    Dataset.from_list(rows, features=Features(features)).to_parquet(str(path))
    return path


def _is_picture(name: str, row: Mapping[str, Any]) -> bool:
    value = row[name]
    return name in NUMBERED or (isinstance(value, dict) and value.keys() == {"bytes", "path"})


def _mmmu(folder: Path) -> Path:
    others = write(folder / SUBJECTS[0] / "validation.parquet", MMMU[:1])
    for subject in SUBJECTS[1:]:
        (folder / subject).mkdir(exist_ok=True)
        shutil.copy(others, folder / subject)
    write(folder / "Art" / "validation.parquet", MMMU)
    return folder


def _mmmu_pro(folder: Path) -> Path:
    write(folder / "standard (10 options)" / "test.parquet", MMMU_PRO)
    write(folder / "vision" / "test.parquet", MMMU_PRO_VISION)
    return folder


def _split(split: str, rows: Rows) -> Callable[[Path], Path]:
    def made(folder: Path) -> Path:
        write(folder / f"{split}.parquet", rows)
        return folder

    return made


VISUAL: dict[str, Callable[[Path], Path]] = {
    "chartqa": _split("test", CHARTQA),
    "docvqa": _split("validation", DOCVQA),
    "mathvista": _split("testmini", MATHVISTA),
    "mmmu": _mmmu,
    "mmmu_pro": _mmmu_pro,
    "ocrbench": _split("test", OCRBENCH),
    "realworldqa": _split("test", REALWORLDQA),
}
"""Writers of the files of each benchmark's questions into a folder."""
