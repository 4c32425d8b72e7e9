"""Hostile answers: a scorer needs bounded time and memory for any text, and returns a row for each answer.

Texts have a quarter of a megabyte, and a whole one in the slow tests: what grows with the square of the length takes minutes for either.
"""

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regrade.records.columns import SCORE_SCHEMA
from regrade.scorers import load_scorer, scorer_names
from tests.memory import taking_at_most
from tests.scorers.batches import any_target, generations, scored
from tests.timing import taking_less_than

MEGABYTE = 1_000_000
LONG = MEGABYTE // 4
"""Characters of a text."""
SECONDS = 5.0
"""Time limit for a megabyte of text, in seconds. Measured on a single core: at most 0.7 s, mostly below 0.05 s."""
TEXT_SCORERS = [
    name
    for name in scorer_names()
    if name != "judge" and not {"doc", "label_logprobs"} & set(load_scorer(name).columns)
]
"""Scorers that need a text and a target only; the others (`judge` reads a judge's replies) have hostile tests of their own."""
GRADED = ("anls", "mrcr")
"""Scorers whose values are shares, not only 0 and 1."""
PIECES = (
    *("#", "7", ",", "1,", "(", "[", "{", "\\boxed{", "}", ".", "-", "/", "*", "_", '"', "`", " "),
    *("\n", "\t", "$", "=", "1=", "1 ", "1 1/2 ", "1/", "1e9", "A", "B.", "x", "é", "\u0301", "İ"),
    *("ﬃ", "٣", "৩", "\N{MATHEMATICAL BOLD DIGIT NINE}", "一", "\u200d", "\u202e", "\x00", "\xa0"),
    *("“", "”", "\N{MINUS SIGN}", "#### ", "#### 1\n", "#### 1. Compute\n", "answer is ", "(A) "),
    *("answer is B ", "answer: x ", "\nA:", "<think>", "</think>", "\nQuestion:", "\\frac{1}{2}"),
    *("1{,}000", "\\text{", "best option is ", "A ", "- ", "Q:\n"),
)


def score_texts(scorer: str, texts: list[str]) -> list[dict[str, Any]]:
    batch = generations(
        texts, any_target(scorer), choices=[["x", text[:100], "y"] for text in texts]
    )
    scores = scored(scorer, batch)
    assert scores.schema.equals(SCORE_SCHEMA)
    scores.validate(full=True)
    found: list[dict[str, Any]] = scores.to_pylist()
    assert len(found) == len(texts)
    for score in found:
        assert score["outcome"] in ("scored", "unparsed", "timeout")
        assert score["value"] in (0.0, 1.0) or (scorer in GRADED and 0 < score["value"] < 1)
    return found


def score_text(scorer: str, text: str) -> dict[str, Any]:
    (score,) = score_texts(scorer, [text])
    return score


@pytest.mark.parametrize("scorer", TEXT_SCORERS)
@pytest.mark.parametrize(
    ("step", "length"), [(16, LONG), pytest.param(1, MEGABYTE, marks=pytest.mark.slow)]
)
def test_a_long_text_of_anything_takes_bounded_time(scorer: str, step: int, length: int) -> None:
    score_text(scorer, "1")  # imports what the scorer needs
    for piece in PIECES[::step]:
        long = piece * (length // len(piece))
        for text in (long, f"#### answer is {long} 1"):
            taking_less_than(SECONDS * length / MEGABYTE, partial(score_text, scorer, text))


@pytest.mark.parametrize("scorer", TEXT_SCORERS)
@pytest.mark.parametrize("pieces", [("\\boxed{", "}"), ("(", ")"), ("**", "**"), ("“", "”")])
def test_nesting_a_hundred_thousand_deep_takes_bounded_time(
    scorer: str, pieces: tuple[str, str]
) -> None:
    before, after = pieces
    deep = LONG // (len(before) + len(after))
    score_text(scorer, "1")  # imports what the scorer needs
    taking_less_than(SECONDS / 4, lambda: score_text(scorer, before * deep + "1" + after * deep))


@pytest.mark.parametrize("scorer", TEXT_SCORERS)
def test_a_long_text_takes_bounded_memory(scorer: str) -> None:
    score_text(scorer, "1")  # imports what the scorer needs
    with taking_at_most(100 * LONG):
        for piece in ("#### 1 ", "answer is B ", '"*', "7"):
            score_text(scorer, piece * (LONG // len(piece)))


@pytest.mark.parametrize("scorer", TEXT_SCORERS)
def test_what_is_kept_of_a_megabyte_is_short(scorer: str) -> None:
    for text in ("x" * MEGABYTE, "A" * MEGABYTE):
        assert len(score_text(scorer, text)["extracted"] or "") <= 200


@pytest.mark.parametrize(
    "digits",
    ["٣", "৩", "\N{FULLWIDTH DIGIT THREE}", "\N{MATHEMATICAL BOLD DIGIT NINE}", "Ⅷ", "²", "四"],
)
def test_digits_of_other_scripts_are_text(digits: str) -> None:
    assert score_text("number_strict", f"#### {digits}")["outcome"] == "unparsed"
    assert score_text("number", digits * 5)["outcome"] == "unparsed"


HUGE = ("1e999", "9" * 5000, "0/0", f"1/{'3' * 59}", "1e-999", f"{'1' * 30}/{'7' * 29}", "-" * 999)


@pytest.mark.parametrize("number", HUGE)
def test_a_number_of_any_size_is_read_or_not_but_never_worked_out_for_ages(number: str) -> None:
    taking_less_than(SECONDS, lambda: score_text("number", f"#### {number}"))


@pytest.mark.parametrize("scorer", TEXT_SCORERS)
@settings(max_examples=5)
@given(pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=6))
def test_no_repeated_mixture_takes_long(scorer: str, pieces: list[str]) -> None:
    unit = "".join(pieces)
    # The second time, patterns are compiled.
    taking_less_than(SECONDS / 2, lambda: score_text(scorer, unit * (MEGABYTE // 10 // len(unit))))


@settings(max_examples=100)
@given(values=st.lists(st.one_of(st.none(), st.floats()), max_size=40))
def test_no_log_probabilities_make_a_scorer_fail(values: list[float | None]) -> None:
    batch = generations([None], "A", label_logprobs=values)
    (score,) = scored("choice_logprob", batch).to_pylist()
    assert score["outcome"] in ("scored", "unparsed", "timeout")
