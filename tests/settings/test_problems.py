"""Problems of settings are told in words that do not come from Python or pydantic."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest
from pydantic import Field, ValidationError

from regrade.jobs.job import EvaluationJob, GenerationJob
from regrade.settings import Settings
from regrade.settings.problems import LONGEST, models_at, one_line

MODEL = {"model": "m", "benchmarks": ["gsm8k"]}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"limit": 0}, "`limit` should be 1 or more, not 0"),
        ({"limit": "many"}, "`limit` should be a whole number, not 'many'"),
        ({"limit": 1.5}, "`limit` should be a whole number, not 1.5"),
        ({"limit": True}, "`limit` should be a whole number, not true"),
        ({"sampling": {"temperature": False}}, "`sampling.temperature` should be a number, not false"),
        ({"datasets": "gsm8k"}, "`datasets` should be a list, such as `[a, b]`, not 'gsm8k'"),
        ({"answers": 3}, "`answers` should be a text, not 3"),
        ({"benchmarks": [3]}, "`benchmarks.0` should be a text, not 3"),
        ({"model": ""}, "`model` should not be empty"),
        ({"reuse": {"fresh": "perhaps"}}, "`reuse.fresh` should be `true` or `false`, not 'perhaps'"),
        ({"prompt": "chat"}, "`prompt` should be a group of settings, such as `{name: value}`, not 'chat'"),
        ({"prompt": {"format": "text"}}, "`prompt.format` should be 'chat' or 'completion', not 'text'"),
        ({"sampling": {"top_p": 0}}, "`sampling.top_p` should be above 0, not 0"),
        ({"sampling": {"stop": ["\n", ""]}}, "`sampling.stop` holds an empty text"),
        ({"sampling": {"temperature": None}}, "`sampling.temperature` should be a number, not empty"),
        ({"datasets": [{"name": "a"}]}, "`datasets.0.path` is missing"),
        ({"datasets": [{"name": "A b", "path": "x"}]}, "`datasets.0.name` should be up to 63 lower-case letters, digits"),
        ({"sources": [{"benchmark": "mmlu", "path": "x"}]}, "a source is given for 'mmlu', which is not"),
        ({"engine": {"kind": "tgi", "dtype": 1}}, "`engine.kind` should be 'vllm' or 'openai', not 'tgi'"),
        ({"answers": ["x" * 100]}, f"not ['{'x' * (LONGEST - 2)}..."),
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_with_what_it_should_be(given: dict[str, Any], says: str):
    with pytest.raises(ValidationError) as error:
        GenerationJob.model_validate({**MODEL, **given})
    line = one_line(error.value)
    assert says in line
    for word in ("Input", "None", "valid", "pydantic"):
        assert word not in line


class _Numbers(Settings):
    """Types of numbers in other types of pydantic."""

    several: Sequence[int] = ()
    by_name: Mapping[str, Sequence[float]] = Field(default_factory=dict)
    pair: tuple[Literal["auto"] | float, int | None] = ("auto", None)
    unlike: frozenset[int] = frozenset()


@pytest.mark.parametrize(
    "given",
    [
        {"several": [2, True]},
        {"by_name": {"a": [0.5, False]}},
        {"pair": (True, 2)},
        {"pair": (0.5, True)},
        {"unlike": [2, True]},
    ],
)
def test_true_and_false_are_no_numbers_however_deep_in_a_setting(given: dict[str, Any]):
    with pytest.raises(ValidationError, match="input_type=bool"):
        _Numbers.model_validate(given)
    numbers = _Numbers.model_validate({"several": [2, 1], "pair": (1, 1), "unlike": [1]})
    assert (numbers.several, numbers.pair, numbers.unlike) == ([2, 1], (1.0, 1), {1})


@pytest.mark.parametrize("kind", [{"kind": "vllm"}, {}])
def test_only_the_engine_that_is_meant_is_told_about_and_no_class(kind: dict[str, str]):
    engine = {**kind, "max_num_batched_tokens": -1}
    with pytest.raises(ValidationError) as error:
        GenerationJob.model_validate({**MODEL, "engine": engine})
    line = one_line(error.value, GenerationJob)
    assert line == "`engine.max_num_batched_tokens` should be 1 or more, not -1"


def test_groups_of_settings_are_found_through_lists_and_choices():
    def names(*path: str) -> set[str]:
        return {name for model in models_at(EvaluationJob, path) for name in model.model_fields}

    assert {"model", "benchmarks", "judge"} <= names()
    assert {"name", "path", "target_column"} <= names("datasets")
    assert {"temperature", "max_tokens"} <= names("datasets", "sampling")
    assert "base_url" not in names("engine", "VllmEngine")
    assert {"dtype", "base_url"} <= names("engine")
    assert names("nothing") == set()
