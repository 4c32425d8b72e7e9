"""Settings that tell answer sets apart: those that differ, and no others."""

from typing import Any

from regrade.answers.manifest import Manifest
from regrade.pages.viewer import settings_apart as module
from regrade.records.computed import Computed
from regrade.records.specification import ModelIdentity, Specification
from regrade.settings import SamplingParams
from tests.builders import session, specification


def settings_apart(sets: list[Specification], **sessions: Any) -> list[dict[str, str]]:
    """Return what tells sets apart, of which the last has one session that recorded something."""
    made = [Manifest.model_construct(specification=described, sessions=()) for described in sets]
    if sessions:
        made[-1] = made[-1].model_copy(update={"sessions": (session(**sessions),)})
    return module.settings_apart(made)


def of_model(name: str, revision: str) -> Specification:
    model = ModelIdentity(name=name, kind="hub", revision=revision * 40)
    return specification().model_copy(update={"model": model})


def test_a_single_set_needs_nothing_to_be_told_apart():
    assert settings_apart([specification()]) == [{}]


def test_settings_that_differ_within_a_benchmark_are_listed_for_each_of_its_sets():
    cold, warm = (
        specification(sampling=SamplingParams(temperature=temperature))
        for temperature in (0.0, 0.7)
    )
    other = specification(benchmark="other")
    assert settings_apart([cold, warm, other]) == [
        {"temperature": "0.0"},
        {"temperature": "0.7"},
        {},
    ]


def test_a_revision_only_tells_sets_of_one_model_apart():
    sets = [of_model("a", "1"), of_model("a", "2"), of_model("b", "3")]
    assert settings_apart(sets) == [{"model.revision": "1" * 12}, {"model.revision": "2" * 12}, {}]


def test_settings_of_the_same_name_are_told_apart_by_their_group():
    sets = [
        specification(engine={"seed": number}, sampling=SamplingParams(seed=number))
        for number in (1, 2)
    ]
    assert settings_apart(sets)[0] == {"sampling.seed": "1", "engine.seed": "1"}


def test_a_setting_of_the_engine_that_only_one_set_has_is_the_default_for_the_other():
    sets = [specification(engine={"dtype": "float16"}), specification()]
    assert settings_apart(sets) == [{"dtype": "float16"}, {"dtype": "default"}]


def test_a_setting_that_was_left_to_the_engine_is_the_one_that_it_used():
    sets = [specification(engine={"dtype": "float16"}), specification()]
    assert settings_apart(sets, dtype="bfloat16") == [{"dtype": "float16"}, {"dtype": "bfloat16"}]
    assert settings_apart(sets, dtype="float16") == [{}, {}]
    cache = [specification(engine={"kv_cache_dtype": "fp8"}), specification()]
    assert settings_apart(cache, computed=Computed(kv_cache_dtype="bfloat16")) == [
        {"kv_cache_dtype": "fp8"},
        {"kv_cache_dtype": "bfloat16"},
    ]


def test_a_setting_that_imported_answers_do_not_tell_is_unknown_and_not_none():
    ours = specification(engine={"dtype": "float16"}, sampling=SamplingParams(temperature=0.7))
    imported = specification(
        model=ModelIdentity(name="a", kind="imported", revision="unknown"), sampling=None
    )
    _, found = settings_apart([ours, imported])
    assert (found["temperature"], found["dtype"]) == ("unknown", "unknown")
    assert "none" not in found.values()
