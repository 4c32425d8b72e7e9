from math import inf, nan

import pytest

from tests.scorers.batches import generations, read, scored


@pytest.mark.parametrize(
    ("logprobs", "letter"),
    [
        ([-3.0, -1.0, -2.0, -4.0], "B"),
        ([-1.0], "A"),
        ([-9.0] * 9 + [-1.0], "J"),
        ([-1e-300, 0.0], "B"),
        ([-inf, -700.0], "B"),
        ([-2.0, -1.0, -1.0, -2.0], "B"),  # the first of those that are equal
    ],
)
def test_the_likeliest_label_is_the_answer(logprobs: list[float], letter: str) -> None:
    assert read("choice_logprob", None, "A", label_logprobs=logprobs)["extracted"] == letter


@pytest.mark.parametrize("logprobs", [None, [], [nan, -1.0], [-1.0, nan], [-inf, -inf], [inf, 0.0]])
def test_what_cannot_be_ranked_is_unparsed(logprobs: list[float] | None) -> None:
    score = read("choice_logprob", None, "A", label_logprobs=logprobs)

    assert (score["outcome"], score["value"]) == ("unparsed", 0.0)


def test_rows_of_different_lengths_are_ranked_each_on_its_own() -> None:
    batch = generations([None] * 5, ["A", "B", "A", "C", "D"])
    lists = [[-1.0], [-2.0, -1.0], None, [-3.0, -2.0, -1.0], []]
    batch = batch.set_column(
        batch.schema.get_field_index("label_logprobs"), batch.schema.field("label_logprobs"), lists
    )

    scores = scored("choice_logprob", batch)

    assert scores["extracted"].to_pylist() == ["A", "B", None, "C", None]
    assert scores["value"].to_pylist() == [1.0, 1.0, 0.0, 1.0, 0.0]
    assert scored("choice_logprob", batch.slice(1, 3)).to_pylist() == scores.to_pylist()[1:4]
