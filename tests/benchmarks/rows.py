"""Rows of published benchmarks in the types of their datasets, made up, in the columns that are read and a few others."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from regrade.benchmarks import benchmark_cards
from regrade.benchmarks.mmlu_redux import MmluRedux
from regrade.benchmarks.mmmlu import LANGUAGES
from tests.benchmarks.files import Rows, gsm8k_folder, mmlu_folder, write_parquet

AIME_2024: Rows = [
    {
        "problem": f"Find the remainder of $2^{{{number}}}$ divided by 1000. $a<b$ & {{x}}",
        "answer": answer,
    }
    for number, answer in enumerate(("033", "204", "000"))
]
LONGBENCH_V2: Rows = [
    {
        "length": length,
        "question": f"What does table {number} show? ",
        "choice_A": "Sales {net}",
        "choice_B": " Costs",
        "choice_C": "Both",
        "choice_D": "Neither",
        "answer": answer,
        "context": f" {number}: {{x}} $DOC$ " + "A long report. " * 50,
    }
    for number, (answer, length) in enumerate(
        zip("ABCD", ("short", "medium", "long", "short"), strict=True)
    )
]
MRCR: Rows = [
    {
        "prompt": json.dumps(
            [
                {"role": "user", "content": "Write a poem about tapirs"},
                {"role": "assistant", "content": f"Tapirs {number}, tapirs, you are so fine."},
                {
                    "role": "user",
                    "content": f"Prepend aYooSG8CQ{number} to the 1st poem about tapirs.",
                },
            ]
        ),
        "answer": f"aYooSG8CQ{number}Tapirs {number}, tapirs, you are so fine.",
        "random_string_to_prepend": f"aYooSG8CQ{number}",
        "n_needles": needles,
    }
    for number, needles in enumerate((2, 4, 8))
]
AIME_2025: Rows = [
    {"problem": f"Sum of bases {number}?", "answer": answer, "id": str(number)}
    for number, answer in enumerate(("70", "16", "588"))
]
AIME_2026: Rows = [
    {"problem_idx": number, "answer": answer, "problem": f"Count the ways {number}."}
    for number, answer in enumerate((277, 62, 7))
]
HMMT: Rows = [
    {"problem_idx": number, "problem": f"Compute the area {number}.", "answer": answer}
    for number, answer in enumerate(
        ("103", "1-\\frac{2}{\\pi}", "\\frac{-1 + \\sqrt{17}}{2}, \\frac{-1 - \\sqrt{17}}{2}")
    )
]
MATH_500: Rows = [
    {"problem": f"Convert the point {number}.", "answer": answer, "subject": subject}
    for number, (answer, subject) in enumerate(
        (
            ("\\left( 3, \\frac{\\pi}{2} \\right)", "Precalculus"),
            ("p - q", "Intermediate Algebra"),
            ("\\text{Evelyn}", "Algebra"),
            ("11,\\! 111,\\! 111,\\! 100", "Prealgebra"),
            ("6 - 5i", "Precalculus"),
        )
    )
]
GPQA: Rows = [
    {
        "Question": f"Which state {number} has the longer lifetime? <sub>10</sub>^-9 s\n",
        "Correct Answer": "10^-4 eV\n",
        "Incorrect Answer 1": "10^-11 eV",
        "Incorrect Answer 2": "10^-8 eV",
        "Incorrect Answer 3": "10^-9 eV",
        "High-level domain": ("Physics", "Chemistry")[number % 2],
    }
    for number in range(8)
]


def mmlu_pro_row(number: int, category: str, options: list[str], right: int) -> dict[str, Any]:
    return {
        "question": f"{category} {number}?",
        "options": options,
        "answer": "ABCDEFGHIJ"[right],
        "answer_index": right,
        "cot_content": f"A: Let's think step by step about {number}. The answer is ({'ABCDEFGHIJ'[right]}).",
        "category": category,
    }


TEN = [f"choice {letter}" for letter in "ABCDEFGHIJ"]
MMLU_PRO: Rows = [
    mmlu_pro_row(70, "law", TEN, 8),
    mmlu_pro_row(71, "business", ["x", "y", "z"], 2),
    mmlu_pro_row(72, "law", ["yes", "no", "N/A", "N/A", "maybe"], 4),
]
MMLU_PRO_SHOTS: Rows = [
    mmlu_pro_row(number, category, TEN[: 3 + number], number % 3)
    for category in ("business", "law")
    for number in range(5)
]


def mmlu_redux_row(number: int, error: str | None) -> dict[str, Any]:
    return {
        "question": f"redux {number}?",
        "choices": ["north", "south", "None", "west"],
        "answer": number % 4,
        "error_type": error,
    }


REDUX: Rows = [
    mmlu_redux_row(number, error)
    for number, error in enumerate(("wrong_groundtruth", "ok", None, "ok"))
]
SUPERGPQA: Rows = [
    {
        "question": f"Who discovered {number}?",
        "options": TEN[: 4 + 6 * (number % 2)],
        "answer_letter": "ABCDEFGHIJ"[number],
        "discipline": ("Philosophy", "Engineering")[number % 2],
    }
    for number in range(4)
]
MMMLU: Rows = [
    {
        "Question": f"Wie groß ist {number}?",
        "A": "eins",
        "B": "zwei",
        "C": None if number == 1 else "None",
        "D": "vier",
        "Answer": "ABCD"[number],
        "Subject": "abstract_algebra",
    }
    for number in range(3)
]


def splits(**rows: Rows) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        for split, some in rows.items():
            write_parquet(folder / f"{split}.parquet", some)
        return folder

    return write


def configs(names: Mapping[str, str], rows: Rows) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        for name in names:
            (folder / name).mkdir(exist_ok=True)
            write_parquet(folder / name / "test.parquet", rows)
        return folder

    return write


FOLDERS: dict[str, Callable[[Path], Path]] = {
    "aime_2024": splits(train=AIME_2024),
    "aime_2025": splits(test=AIME_2025),
    "aime_2026": splits(train=AIME_2026),
    "gpqa_diamond": splits(train=GPQA),
    "gsm8k": gsm8k_folder,
    "gsm8k_chat": gsm8k_folder,
    "hmmt_feb_2025": splits(train=HMMT),
    "hmmt_feb_2026": splits(train=HMMT),
    "hmmt_nov_2025": splits(train=HMMT),
    "math_500": splits(test=MATH_500),
    "mmlu": mmlu_folder,
    "mmlu_generative": mmlu_folder,
    "mmlu_pro": splits(test=MMLU_PRO, validation=MMLU_PRO_SHOTS),
    "mmlu_redux": configs(MmluRedux.configs, REDUX),
    "mmmlu": configs(LANGUAGES, MMMLU),
    "supergpqa": splits(train=SUPERGPQA),
}
"""Writers of the files of each benchmark's questions and worked examples into a folder."""
CHATS = {"longbench_v2": splits(train=LONGBENCH_V2), "mrcr": splits(train=MRCR)}
"""The same of benchmarks that are asked in chats only."""
BENCHMARKS = tuple(card.name for card in benchmark_cards() if card.name in FOLDERS)
WITH_SHOTS = ("gsm8k", "gsm8k_chat", "mmlu", "mmlu_generative", "mmlu_pro")
"""Benchmarks with worked examples."""
