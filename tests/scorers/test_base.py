import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regrade.scorers.base import SHARED_COLUMNS, Reading, score_each, score_rows
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.pieces import Pieces
from tests.scorers.batches import any_target, generations, read, scored

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
RESTATED = "I restate it in 3 words.\nQuestion: how many?\n#### 7"


def test_reasoning_that_the_prompt_opened_and_nothing_closed_holds_no_answer():
    assert read("number", "so 5 and then 7", "7", reasoning_open=True)["outcome"] == "unparsed"
    assert read("number", "so 5 </think> it is 7", "7", reasoning_open=True)["value"] == 1.0
    assert read("number", "so 5 and then 7", "7", reasoning_open=False)["value"] == 1.0


def test_rows_of_one_batch_open_their_reasoning_each_for_itself() -> None:
    batch = generations(["so 5 and then 7", "it is 7"], "7")
    column = batch.schema.get_field_index("reasoning_open")
    batch = batch.set_column(column, batch.schema.field(column), pa.array([True, False]))

    assert scored("number", batch)["extracted"].to_pylist() == [None, "7"]


@pytest.mark.parametrize(
    ("prompt_format", "extracted"), [("chat", "7"), ("completion", "3"), (None, "7")]
)
def test_only_the_answer_to_a_completion_prompt_ends_at_a_question(
    prompt_format: str | None, extracted: str
) -> None:
    scores = scored("number", generations([RESTATED], "7"), prompt_format)

    assert scores["extracted"].to_pylist() == [extracted]


@pytest.mark.parametrize(
    ("before", "ends"),
    [
        ("The answer is 3.", True),
        ("So \\boxed{3}", True),
        ("#### 3", True),
        ("Sum\nA: 3", True),
        ("A: 3 eggs", True),
        ("Team A: 3 eggs", False),
        ("3", True),
        ("There are 3 of them.", False),
    ],
)
def test_with_an_unknown_prompt_an_answer_ends_at_a_question_if_it_reads_as_an_answer(
    before: str, ends: bool
) -> None:
    scores = scored("number", generations([f"{before}\nQuestion: And 2 + 2?\n#### 4"], "3"))

    assert scores["extracted"].to_pylist() == ["3" if ends else "4"]


def test_a_batch_without_the_column_of_the_format_is_read_as_unknown() -> None:
    from regrade.scorers import load_scorer

    scorer = load_scorer("number")
    batch = generations([RESTATED], "7").select([*SHARED_COLUMNS, *scorer.columns])

    assert scorer.score(batch)["extracted"].to_pylist() == ["7"]


# Places


@pytest.mark.parametrize(
    ("scorer", "text", "place"),
    [
        ("number", "é \U0001f600 The answer is -$1,234.50 now", "-$1,234.50"),
        ("number", "<think>\N{GREEK SMALL LETTER PI} 5</think>é #### 7", "7"),
        ("number", "7 é 7 é 7", "7"),
        ("number", "\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("number", "It is $.50", ".50"),
        ("number", "Answer: minus 5", "minus 5"),
        ("number_strict", "é\n#### 13 eggs", "13"),
        ("choice_letter", "é is it (A)? The answer is (B).", "B"),
        ("choice_letter", " Rome. ", "Rome."),
        ("choice_letter", "é Answer: Rome\nBecause", "Rome"),
        ("choice_letter_first", "The answer is (A), or the answer is (B).", "A"),
        ("text", "é. So the answer is **Paris**, because é", "Paris"),
        ("exact", " é Paris \n", "é Paris"),
    ],
)
def test_the_place_of_an_answer_is_counted_in_characters(
    scorer: str, text: str, place: str
) -> None:
    score = read(scorer, text, any_target(scorer), choices=["Paris", "Rome"])

    assert text[score["start"] : score["end"]] == place


def test_of_equal_numbers_the_place_is_the_one_that_was_read() -> None:
    score = read("number", "7 é 7 é 7", "7")

    assert (score["start"], score["end"]) == (8, 9)


def test_an_answer_that_was_ranked_has_no_place() -> None:
    score = read("choice_logprob", "A", "A", label_logprobs=[-1.0, -2.0])

    assert (score["start"], score["end"]) == (None, None)


@settings(max_examples=15)
@given(st.lists(WORDS, min_size=8, max_size=16))
def test_places_are_right_in_any_script(words: list[str]) -> None:
    said = [word for word in words if "####" not in word and "think>" not in word]
    texts = [f"{word}#### 5 {word}" for word in said]
    batch = generations(texts, "5")

    for text, score in zip(texts, scored("number_strict", batch).to_pylist(), strict=True):
        if score["extracted"] == "5":
            assert text[score["start"]] == "5"


def test_places_in_a_slice_of_a_batch_are_those_of_its_rows() -> None:
    batch = generations(["é 1", "é 22 é", None, "33"], "1")

    whole = scored("number", batch).to_pylist()

    assert scored("number", batch.slice(1, 3)).to_pylist() == whole[1:4]
    assert [(row["start"], row["end"]) for row in whole] == [(2, 3), (2, 4), (None, None), (0, 2)]


def test_a_reading_without_places_has_none() -> None:
    batch = generations(["x"], "x")
    texts = c.column(batch, "text")

    scores = score_rows(batch, Reading(texts, c.is_equal(texts, "x"))).to_pylist()

    assert (scores[0]["value"], scores[0]["start"]) == (1.0, None)


def test_pieces_know_where_they_begin() -> None:
    pieces = Pieces.whole(pa.array(["é: x, é: yz ", None]))
    after = pieces.after_last("é: ")

    assert after.text.to_pylist() == ["yz ", None]
    assert after.start[0] == len("é: x, é: ".encode())
    assert pieces.after_first("é: ").text.to_pylist() == ["x, é: yz ", None]
    assert after.trimmed().text.to_pylist() == ["yz", None]
    assert after.split(r"\A(?P<a>y)(?P<b>z)")["b"].start[0] == after.start[0] + 1
    assert after.split_end(r"(?P<a>z)(?P<b> )\z")["a"].start[0] == after.start[0] + 1
    assert pieces.until(after.start - 4).text.to_pylist() == ["é: x, ", None]


# A scorer of a Python function


def test_a_function_of_answer_and_target_is_a_scorer() -> None:
    calls: list[tuple[str, str]] = []

    def last_word(answer: str, target: str) -> tuple[str | None, bool]:
        calls.append((answer, target))
        word = answer.split()[-1] if answer.split() else None
        return word, word == target

    batch = generations(["so yes", "so yes", "no", "", None, "<think>yes</think> no"], "yes")

    scores = score_each(batch, last_word)

    assert scores["extracted"].to_pylist() == ["yes", "yes", "no", None, None, "no"]
    assert scores["value"].to_pylist() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert scores["outcome"].to_pylist()[3:5] == ["unparsed", "unparsed"]
    assert calls.count(("so yes", "yes")) == 1  # once for each distinct pair
