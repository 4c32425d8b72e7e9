r"""Mathematical answers as models write them, with the verdict of a careful reader: `math_pairs.jsonl`, a line for each.

`known` marks a pair on which the scorer differs from the reader, and says why. Each is a right answer that counts as wrong.
"""

import gzip
import json
import resource
import subprocess
import sys
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from regrade.processes.limited import Limits
from regrade.scorers import math
from regrade.scorers.mathematics.reading import read_sentence
from regrade.settings.errors import SettingsError
from tests.benchmarks.files import shared
from tests.scorers.batches import CONTEXT, generations, scored
from tests.timing import taking_less_than

pytestmark = pytest.mark.skipif(
    find_spec("math_verify") is None, reason="the extra `math` is not installed"
)

PAIRS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "math_pairs.jsonl").read_text("utf-8").splitlines()
]
HOSTILE = (
    r"\boxed{9999999999^{9999999999}}",
    r"\boxed{10^{10^{10}}}",
    r"\boxed{2^{2^{2^{2^{2^2}}}}}",
    r"\boxed{100000000!}",
    r"\boxed{\frac{5^{(5^{(5^{(5^5)})}-4)}-5}{16}}",
)


def score(texts: list[str], targets: list[str]) -> list[dict[str, Any]]:
    return scored("math", generations(texts, targets)).to_pylist()


def test_right_and_wrong_are_those_of_a_careful_reader() -> None:
    scores = score([pair["text"] for pair in PAIRS], [pair["target"] for pair in PAIRS])

    differing = [
        (pair["target"], pair["text"], pair["right"], found["extracted"])
        for pair, found in zip(PAIRS, scores, strict=True)
        if (found["value"] == 1.0) != (pair["right"] != ("known" in pair))
    ]
    assert differing == []


def test_there_are_300_pairs_of_both_verdicts_and_few_known_differences() -> None:
    verdicts = Counter(pair["right"] for pair in PAIRS)

    assert len({(pair["target"], pair["text"]) for pair in PAIRS}) == len(PAIRS) >= 300
    assert verdicts[False] >= 90
    assert [pair for pair in PAIRS if "known" in pair and not pair["right"]] == []
    assert sum("known" in pair for pair in PAIRS) == 3


def test_an_answer_equals_itself_and_its_target_in_a_box() -> None:
    targets = sorted({pair["target"] for pair in PAIRS})

    scores = score([rf"Thus $\boxed{{{target}}}$." for target in targets], targets)

    wrong = [row["extracted"] for row in scores if row["value"] != 1.0]
    assert wrong == []


def test_the_place_is_where_the_answer_stands() -> None:
    text = r"Erst Ä, dann $\boxed{\frac{1}{2}}$."

    row = score([text], ["0.5"])[0]

    assert text[row["start"] : row["end"]] == row["extracted"] == r"\frac{1}{2}"


@pytest.mark.parametrize(
    "text", [HOSTILE[0], *(pytest.param(text, marks=pytest.mark.slow) for text in HOSTILE[1:])]
)
def test_a_comparison_that_does_not_end_is_a_timeout_and_not_wrong(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(math, "LIMITS", Limits(cpu_seconds=0.5, seconds=600, memory=1 << 30))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime

    batch = generations([text, r"\boxed{\frac{6}{2}}"], ["3", "3"])
    with math.MathScorer().session(CONTEXT) as session:
        rows = session(batch).to_pylist()

    assert [(row["outcome"], row["value"]) for row in rows] == [("timeout", 0.0), ("scored", 1.0)]
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    assert used < 10  # it would not end; most of it are imports


def test_hostile_texts_do_not_stop_the_others() -> None:
    hostile = [
        *(rf"\boxed{{{'(' * 300}1{')' * 300}}}", rf"\boxed{{{'1' * 200_000}}}", r"\boxed{" * 2000),
        *("$" * 5000, "1/" * 20_000, r"\frac{" * 2000, "\x00\ufffd\u202e" * 100),
    ]

    *wrong, plain = score([*hostile, r"\boxed{x=3}"], ["3"] * (len(hostile) + 1))

    assert {row["value"] for row in wrong} == {0.0}
    assert (plain["outcome"], plain["value"]) == ("scored", 1.0)


def test_equal_answers_are_compared_once() -> None:
    started = time.monotonic()

    rows = score([r"\boxed{\sqrt{5+2\sqrt{6}}}"] * 2000, [r"\sqrt{2}+\sqrt{3}"] * 2000)

    assert {row["value"] for row in rows} == {1.0}
    assert time.monotonic() - started < 10


def test_a_blank_target_is_refused() -> None:
    with pytest.raises(SettingsError, match="Scorer 'math' compares with a mathematical answer"):
        score(["1"], [" "])


def test_versions_and_limits_are_part_of_the_identity() -> None:
    identity = math.MathScorer().environment(CONTEXT.options)

    assert identity["math-verify"]
    assert (identity["cpu_seconds"], identity["memory_mib"]) == ("5", "1024")


def test_it_agrees_with_number_on_real_answers_to_gsm8k() -> None:
    folder = shared("generations")
    texts, targets = [], []
    rows = (folder / "openai-gsm8k/solutions.jsonl").read_text().splitlines()
    for row in map(json.loads, rows):
        for model in ("6b_finetuning", "6b_verification"):
            texts.append(row[model]["solution"])
            targets.append(row["ground_truth"].rpartition("A:")[2].strip())
    for file in sorted((folder / "zeroeval-gsm").glob("*.json.gz")):
        for row in json.loads(gzip.decompress(file.read_bytes())):
            texts.append(row["output"][0])
            targets.append(str(row["answer"]).strip("# ").replace(",", ""))

    as_mathematics = score(texts, targets)
    as_numbers = scored("number", generations(texts, targets)).to_pylist()

    assert len(texts) == 7276
    pairs = zip(texts, as_mathematics, as_numbers, strict=True)
    differing = [text[-80:] for text, row, other in pairs if row["value"] != other["value"]]
    # `number` reads `2:10 pm` as 2, and the last number of a sentence with several.
    assert len(differing) <= 4


@pytest.mark.parametrize("piece", ["\\(", "\\[", "$", "$$", "$x", "\\(\\[", "\\( $"])
def test_formulas_that_never_end_take_linear_time(piece: str):
    taking_less_than(2, lambda: read_sentence(piece * (200_000 // len(piece))))


@pytest.mark.parametrize(
    ("answer", "target", "value"),
    [
        (rf"\boxed{{0.\overline{{{'1' * 4_400}}}}}", "1/9", 0.0),  # more digits than Python reads
        (rf"\boxed{{{'(A) ' * 1_200}}}", "1", 0.0),
        (rf"\boxed{{{'(A) ' * 1_200}}}", "A", 1.0),
    ],
)
def test_an_answer_that_repeats_itself_is_compared(answer: str, target: str, value: float) -> None:
    assert [row["value"] for row in score([answer], [target])] == [value]


@pytest.mark.parametrize(
    ("nestings", "step", "number"),
    [(0, 5, 111), pytest.param(8, 1, 4_914, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
)
def test_no_part_of_a_formula_is_run_as_code(nestings: int, step: int, number: int):
    command = [sys.executable, "-m", "tests.scorers.formulas", str(nestings), str(step)]

    assert subprocess.check_output(command, text=True) == f"{number} []\n"
