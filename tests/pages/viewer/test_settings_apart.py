"""Settings that tell answer sets apart: those that differ, and no others."""

from regrade.pages.viewer.settings_apart import settings_apart
from regrade.records.specification import ModelIdentity, Specification
from regrade.settings import SamplingParams
from tests.builders import specification


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
    sets = [
        of_model("a", "1"),
        of_model("a", "2"),
        of_model("b", "3"),
    ]
    assert settings_apart(sets) == [
        {"model.revision": "1" * 12},
        {"model.revision": "2" * 12},
        {},
    ]


def test_a_setting_of_the_engine_that_only_one_set_has_is_the_default_for_the_other():
    sets = [specification(engine={"dtype": "float16"}), specification()]
    assert settings_apart(sets) == [{"dtype": "float16"}, {"dtype": "default"}]
