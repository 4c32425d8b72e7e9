from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regrade.settings.errors import SettingsError
from tests.scorers.batches import generations, read, scored


def test_the_number_is_read() -> None:
    expected = {
        # Position of the number
        "She has 16 - 3 = 13.\n#### 13": "13",
        "#### 12\nNo, wait.\n#### 13": "13",
        "#### 13\n#### Summary": "13",
        "#### 1. Add 16 and 3\n#### 2. Done\nThat makes 19 eggs": "19",
        "The answer is 3. No: the answer is 13. There are 2 people.": "13",
        "The answer is 13.\n\nHave a look at the 2 steps above.": "13",
        "The total is 13 eggs. I hope that this answer is helpful!": "13",
        "**Final Answer:**\n\n**13**\n\nEach of the 4 people agrees.": "13",
        "The final answer is: $\\boxed{13}$ for 2": "13",
        "So \\boxed{12}, that is \\boxed{\\text{13}} for 2": "13",
        "Sum: 9 + 4\nA: 13 in 2 days": "13",
        '{"reasoning": "9 + 4", "answer": "13 eggs", "days": 2}': "13",
        '{"reasoning": "9 + 4", "answer": 13, "days": 2}': "13",
        "The answer is 9 + 4 = 13 eggs in 2 days": "13",
        "The answer is x = 13 eggs": "13",
        "The answer is \\(9 + 4 = 13\\)": "13",
        "First 16, then 3 less: 13 eggs remain.": "13",
        "Answer: we start from 9.\nWith 4 more there are 13.": "13",
        "13\n\nQuestion: What is 2 + 2?\nAnswer: 4": "13",
        "13\nQ: What is 2 + 2?\nA: 4": "13",
        "Question: What is 9 + 4?\nAnswer: 13": "13",
        # Form of the number
        "72": "72",
        "72.": "72",
        "72.0": "72",
        "$72.00": "72",
        "**72**": "72",
        "\\$72": "72",
        "72%": "72",
        "72 km/h": "72",
        "Rs.72": "72",
        "€72": "72",
        "it costs £72.50.": "72.5",
        "007": "7",
        "0.50": "0.5",
        "$.50": "0.5",
        "1,234,567": "1234567",
        "$1,234.50": "1234.5",
        "1,00,000": "100000",
        "1{,}234": "1234",
        "1\\,234\\,567": "1234567",
        "1\N{NARROW NO-BREAK SPACE}234": "1234",
        "the numbers 1,2": "2",
        "the numbers 1, 2": "2",
        "It was 1234,567": "567",
        "3/4": "0.75",
        "\\frac{3}{4}": "0.75",
        "-\\frac{3}{4}": "-0.75",
        "2\\frac{1}{2}": "2.5",
        "2/6": "1/3",
        "24 / 3": "8",
        "5 1/2": "5.5",
        "1.5e3": "1500",
        "-5": "-5",
        "-$5": "-5",
        "$-5": "-5",
        "\N{MINUS SIGN}5": "-5",
        "(-5)": "-5",
        "= -5": "-5",
        "pages 10\N{EN DASH}15": "15",
        "-0": "0",
        "25": "25",  # not only the last digit
        "9" * 3000: "9" * 3000,
        "0." + "3" * 3000: "0." + "3" * 3000,
    }

    scores = scored("number", generations([*expected], "72"))

    assert dict(zip(expected, scores["extracted"].to_pylist(), strict=True)) == expected


def test_an_answer_without_a_number_is_unparsed_and_wrong() -> None:
    texts = [
        "",
        "  \n ",
        None,
        "I do not know.",
        "\N{ARABIC-INDIC DIGIT THREE}",
        "1/0",
        "10-5",
        "10 - 5",
        "x - 5",
        "<think> 72, I believe",
        "72 <think> or not",
        '{"reasoning": "There are 72 here", "answer": "Cannot be determined"}',
        "There are 72 of them: \\boxed{none}",
        "nan",
        "inf",
    ]

    scores = scored("number", generations(texts, "72"))

    columns = (scores[name].to_pylist() for name in ("outcome", "extracted", "value"))
    assert [*zip(*columns, strict=True)] == [("unparsed", None, 0.0)] * len(texts)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("72", "72.0"),
        ("$72.00", "72"),
        ("70000", "70,000"),
        ("70,000", "70000"),
        ("-15", "\N{MINUS SIGN}15"),
        ("3/4", ".75"),
        ("0.75", "3/4"),
        ("33%", "33"),
        ("0.1", "0.10"),
        ("18", "# 18"),
        ("100000000000000000000000001", "100000000000000000000000001.0"),
    ],
)
def test_equal_numbers_are_right_however_they_are_written(text: str, target: str) -> None:
    assert read("number", text, target)["value"] == 1.0


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("25", "5"),
        ("5", "25"),
        ("-5", "5"),
        ("1/3", "0.3333333333333333"),
        ("0.1", "0.1000000000000000055511151231257827"),
        ("100000000000000000000000001", "100000000000000000000000002"),
        ("1,234", "234"),
    ],
)
def test_different_numbers_are_wrong(text: str, target: str) -> None:
    assert read("number", text, target)["value"] == 0.0


def test_reasoning_is_dropped_up_to_the_last_end_of_it() -> None:
    text = "<think>16, or 17</think> Hm. <think>18?</think> It is 72."

    assert read("number", text, "72")["value"] == 1.0
    assert read("number", "so 18.</think>It is seventy-two.", "72")["outcome"] == "unparsed"


def test_a_truncated_answer_is_marked_and_still_read() -> None:
    score = read("number", "So far there are 72", "72", finish_reason="length")

    assert (score["truncated"], score["outcome"], score["value"]) == (True, "scored", 1.0)


def test_an_error_is_missing_not_wrong() -> None:
    score = read("number", "72", "72", error="prompt too long", finish_reason=None)

    assert (score["outcome"], score["value"], score["extracted"]) == ("failed", None, None)
    assert score["truncated"] is False


def test_a_target_that_is_no_number_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="'number' compares with a number.*'sample-1' is 'B'"):
        scored("number", generations(["1", "2"], ["1", "B"]))


@pytest.mark.parametrize("target", ["10-5", "5 eggs", "about 5", "x = 5", "5, 6", ""])
def test_a_target_with_more_than_a_number_is_refused(target: str) -> None:
    with pytest.raises(SettingsError, match="compares with a number"):
        read("number_strict", "#### 5", target)


@pytest.mark.parametrize(
    ("text", "extracted"),
    [
        ("#### 1e100", "1" + "0" * 100),
        ("#### 1/" + "3" * 70, "1/" + "3" * 70),  # too long to compute, kept unchanged
        ("#### 1/8", "0.125"),
        ("#### 7/20", "0.35"),
        ("#### 1/3", "1/3"),
        ("#### 0/5", "0"),
        ("#### -0.50", "-0.5"),
        ("#### -0.0", "0"),
        ("#### \u2152", "0.1"),  # one tenth, as a single character
        ("#### 1\u2044" + "4", "0.25"),  # a fraction slash
        ("#### 3 1\u2044" + "4", "3.25"),
        ("#### 12{,}345{,}678", "12345678"),
        ("#### 007", "7"),
        ("#### 000", "0"),
    ],
)
def test_numbers_are_exact_in_every_form(text: str, extracted: str) -> None:
    assert read("number", text, "1")["extracted"] == extracted


def test_an_empty_batch_has_no_scores() -> None:
    assert scored("number", generations(["72"], "72").slice(1)).num_rows == 0


def test_a_slice_of_a_batch_is_scored_like_its_rows() -> None:
    batch = generations(["#### 1", "<think>1</think>2", None, "the answer is 4"], "4")

    whole = scored("number", batch).to_pylist()

    assert scored("number", batch.slice(1, 3)).to_pylist() == whole[1:]


FORMATS = (
    "{}",
    "#### {}",
    "The answer is {}.",
    "It is **${}**",
    "\\boxed{{{}}}",
    "A: {}",
    'so {{"answer": "{}"}}',
)


@given(
    st.decimals(-(10**12), 10**12, places=2).filter(lambda n: not n.is_zero() or not n.is_signed())
)
@settings(max_examples=20)
def test_every_gold_number_is_right_in_every_format(number: Decimal) -> None:
    texts = [template.format(f"{number:,}") for template in FORMATS]

    scores = scored("number", generations(texts, str(number)))  # at once: each call costs patterns

    assert dict(zip(texts, scores["value"].to_pylist(), strict=True)) == dict.fromkeys(texts, 1.0)
