import pytest

from tests.scorers.batches import generations, read, scored


@pytest.mark.parametrize(
    ("text", "extracted"),
    [
        ("9 + 4 = 13\n#### 13", "13"),
        ("#### 12\n#### 13", "13"),
        ("####13", "13"),
        ("#### $1,234.50", "1234.5"),
        ("#### **-13**", "-13"),
        ("#### 13 eggs in 2 boxes", "13"),
        ("#### 9 + 4 = 13", "13"),
        ("#### 13\n\nQuestion: More?\n#### 14", "13"),
        ("#### 13\n#### Conclusion", "13"),
        ("<think>#### 12</think>#### 13", "13"),
    ],
)
def test_the_number_after_hashes_is_read(text: str, extracted: str) -> None:
    assert read("number_strict", text, "13")["extracted"] == extracted


@pytest.mark.parametrize(
    "text",
    [
        "13",
        "The answer is 13",
        "### 13",
        "####\n13",
        "#### none",
        "#### 1. Add\n#### 2. Sum",
        "#### 1. add it",
        "",
    ],
)
def test_anything_else_is_unparsed(text: str) -> None:
    assert read("number_strict", text, "13")["outcome"] == "unparsed"


def test_gold_solutions_of_gsm8k_are_right() -> None:
    solutions = ["He pays 2 * 600 = <<2*600=1200>>1,200.\n#### 1,200", "It is colder.\n#### -3"]

    scores = scored("number_strict", generations(solutions, ["1200", "-3"]))

    assert scores["value"].to_pylist() == [1.0, 1.0]
