import hashlib
from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regrade.benchmarks.questions.samples import Question, check_limit, number_samples, spread
from regrade.settings.errors import SettingsError


def test_an_id_is_the_hash_of_question_choices_target_and_subset() -> None:
    asked = Question("Who?", "B", {"other": "not hashed"}, subset="people", choices=("me", "you"))
    canonical = orjson.dumps(
        {"choices": ["me", "you"], "question": "Who?", "subset": "people", "target": "B"}
    )

    (sample,) = number_samples([asked])

    assert sample.id == hashlib.sha256(canonical).hexdigest()[:16]
    assert (sample.index, sample.target, sample.subset) == (0, "B", "people")


def test_equal_questions_get_numbers_in_order() -> None:
    samples = number_samples(Question(content, "1", {}) for content in "abaa")

    first = samples[0].id
    assert [s.id for s in samples] == [first, samples[1].id, f"{first}-2", f"{first}-3"]
    assert [s.index for s in samples] == [0, 1, 2, 3]


@given(total=st.integers(1, 500), limit=st.integers(1, 600))
def test_a_limit_is_spread_evenly(total: int, limit: int) -> None:
    chosen = spread(range(total), limit)

    assert len(chosen) == len(set(chosen)) == min(limit, total)
    assert chosen == sorted(chosen)
    assert chosen[0] == 0
    gaps = {after - before for before, after in pairwise(chosen)}
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_a_limit_of_3_takes_rows_0_3_and_6_of_10() -> None:
    assert spread(range(10), 3) == [0, 3, 6]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_1_is_refused(limit: int) -> None:
    with pytest.raises(SettingsError, match=f"limit is {limit}, expected 1 or more"):
        check_limit(limit)
