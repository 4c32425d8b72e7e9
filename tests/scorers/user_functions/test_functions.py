"""Scorers made of a user's function, as `load_scorer` returns them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from regrade.records.columns import GENERATION_SCHEMA, SCORING_SCHEMA
from regrade.scorers import Score, method_of
from regrade.scorers.base import SHARED_COLUMNS
from regrade.scorers.user_functions.functions import FunctionScorer
from regrade.scoring.batches import score_batch
from regrade.settings.errors import PluginError, SettingsError
from tests.builders import row

Rows = list[dict[str, Any]]


def scored(function: Callable[..., object], *rows: dict[str, Any]) -> Rows:
    scorer = FunctionScorer("mine", function)
    columns = list(dict.fromkeys([*SHARED_COLUMNS, *scorer.columns]))
    table = pa.Table.from_pylist(list(rows), schema=GENERATION_SCHEMA).select(columns)
    (batch,) = table.combine_chunks().to_batches()
    scores = score_batch(scorer.score, scorer.columns, batch)
    assert scores.schema == SCORING_SCHEMA
    return scores.to_pylist()


def read(function: Callable[..., object], *rows: dict[str, Any]) -> list[tuple[str, float | None]]:
    """Return outcome and value of each row."""
    return [(score["outcome"], score["value"]) for score in scored(function, *rows)]


def last_word(answer: str, target: str) -> bool | None:
    """The last word.

    Further lines describe nothing.
    """
    words = answer.split()
    return words[-1] == target if words else None


def test_a_function_gives_right_wrong_and_unparsed():
    rows = [row(1, "It is 1"), row(2, "It is 3"), row(3, "   ")]

    found = scored(last_word, *rows)

    assert read(last_word, *rows) == [("scored", 1.0), ("scored", 0.0), ("unparsed", 0.0)]
    assert [score["extracted"] for score in found] == ["It is 1", "It is 3", None]


def test_docstring_and_parameters_describe_a_function():
    scorer = FunctionScorer("mine", last_word)

    assert scorer.description == "The last word."
    assert set(scorer.columns) == {"text", "target"}
    assert method_of(scorer) == "generate"


def test_reasoning_is_not_part_of_the_answer():
    assert read(last_word, row(1, "<think>It is 2</think>It is 1")) == [("scored", 1.0)]


def test_a_function_is_not_called_for_an_answer_that_does_not_exist():
    def never(answer: str) -> bool:
        raise AssertionError(answer)

    failed = row(1) | {"error": "too long", "text": None}
    unfinished = row(2, "<think>It is") | {"reasoning_open": True}

    assert read(never, failed, unfinished) == [("failed", None), ("unfinished", 0.0)]


def test_an_answer_with_an_unknown_target_is_missing_if_the_function_reads_the_target():
    rows = [row(1, "It is 1"), row(2, "It is 2") | {"target": None}]

    assert read(last_word, *rows) == [("scored", 1.0), ("failed", None)]


def test_a_function_gets_all_accepted_targets():
    def any_of(answer: str, targets: list[str]) -> bool:
        return answer in targets

    rows = [row(1, "Rome") | {"target": '["Roma", "Rome"]'}, row(2, "Rome") | {"target": "Roma"}]

    assert read(any_of, *rows) == [("scored", 1.0), ("scored", 0.0)]
    assert FunctionScorer("mine", any_of).targets == "texts"


def test_a_function_gets_the_whole_row():
    seen: list[Mapping[str, Any]] = []

    def look(row: Mapping[str, Any]) -> float:
        seen.append(row)
        return row["completion_tokens"] / 14

    (found,) = scored(look, row(3, "three", repeat=2))

    assert found["value"] == 0.5
    assert found["repeat"] == 2
    (given,) = seen
    expected = {"answer": "three", "targets": ["3"], "prompt": "What is 3?", "subset": "odd"}
    assert given | expected == given


def test_a_function_of_log_probabilities_scores_ranked_choices():
    def sure(label_logprobs: list[float]) -> bool:
        return max(label_logprobs) > -0.1

    rows = [row(n) | {"text": None, "label_logprobs": [-2.0, 1.0 - n]} for n in (1, 2)]

    assert method_of(FunctionScorer("mine", sure)) == "rank"
    assert read(sure, *rows) == [("scored", 1.0), ("scored", 0.0)]


def test_a_parameter_with_a_default_stays_at_its_default():
    def near(answer: str, target: str, tolerance: float = 1.0) -> bool:
        return abs(float(answer) - float(target)) <= tolerance

    assert read(near, row(1, "2"), row(2, "4")) == [("scored", 1.0), ("scored", 0.0)]


def test_a_score_says_what_was_read():
    def read(answer: str) -> Score:
        return Score(0.25, extracted=answer.upper() * 100)

    (found,) = scored(read, row(1, "abc"))

    assert (found["value"], found["extracted"]) == (0.25, "ABC" * 66 + "AB")


@pytest.mark.parametrize("value", [np.True_, np.float32(1), 1, 1.0, True])
def test_values_of_any_number_type_count(value: object):
    assert read(lambda answer: value, row(1)) == [("scored", 1.0)]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (1.5, r"returned 1\.5; expected True, False, a number from 0 to 1.*Divide"),
        (-0.1, "returned -0.1"),
        (float("nan"), "returned nan"),
        ("yes", "returned 'yes'; expected True, False"),
        ((True, "x"), "returned .True, 'x'."),
        (Score(1, extracted=3), "has the extracted value 3"),
        (Score(1, metrics={"bleu": float("inf")}), "has the metric 'bleu' = inf"),
    ],
)
def test_a_value_that_is_no_score_is_an_error_that_names_the_sample(value: object, says: str):
    with pytest.raises(SettingsError, match=rf"Scorer 'mine', sample 'sample-00007', .*it {says}"):
        scored(lambda answer: value, row(7))


def test_a_function_that_raises_is_an_error_that_names_sample_and_line():
    def broken(answer: str) -> float:
        return 1 / (len(answer) - 2)

    with pytest.raises(SettingsError) as caught:
        scored(broken, row(1, "one"), row(2, "tw", repeat=3))

    message = str(caught.value)
    assert "Scorer 'mine' failed on sample 'sample-00002', repeat 3: ZeroDivisionError" in message
    assert "(in `broken`, line " in message
    assert "`return 1 / (len(answer) - 2)`" in message


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda response: True, "its parameter 'response' cannot be given"),
        (lambda **kwargs: True, r"'\*\*kwargs' cannot be given"),
        (lambda: True, "it takes the parameters: none"),
        (lambda batch, answer: True, "it takes the parameters: batch, answer"),
    ],
)
def test_parameters_that_cannot_be_given_are_refused(function: Callable[..., object], says: str):
    with pytest.raises(PluginError, match=says):
        FunctionScorer("mine", function)


def is_short(batch: pa.RecordBatch) -> Any:
    lengths = [None if text is None else len(text) for text in batch["answer"].to_pylist()]
    return pa.array([None if n is None else n < 4 for n in lengths], pa.bool_())


@pytest.mark.parametrize("convert", [lambda array: array, pa.Array.to_pylist, pa.Array.to_pandas])
def test_a_function_over_columns_returns_a_value_for_each_row(convert: Callable[[Any], object]):
    rows = [row(1, "one"), row(2, "two words"), row(3) | {"text": None, "error": "e"}]

    found = read(lambda batch: convert(is_short(batch)), *rows)

    assert found == [("scored", 1.0), ("scored", 0.0), ("failed", None)]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda batch: [1.0], "returned 1 values for a batch of 2 answers"),
        (lambda batch: 1.0, "returned float for a batch of 2 answers"),
        (lambda batch: [1.0, 7], r"sample 'sample-00002', repeat 0: it returned 7"),
        (lambda batch: batch["x"], r"failed on a batch of 2 answers from sample 'sample-00001'"),
    ],
)
def test_a_function_over_columns_that_returns_something_else_is_an_error(
    function: Callable[..., object], says: str
):
    with pytest.raises(SettingsError, match=says):
        scored(function, row(1), row(2))
