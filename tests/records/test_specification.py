import json
from typing import Any

import pytest

from regrade.records.specification import (
    LEFT_OUT,
    AdapterIdentity,
    AskedAgain,
    BenchmarkIdentity,
    ModelIdentity,
    PromptIdentity,
    Specification,
    effective_sampling,
    model_family,
    path_component,
    specification_id,
    training_step,
)
from regrade.settings import SamplingParams
from tests.builders import specification
from tests.command_line import ROOT

PARTS = {
    "model": ModelIdentity,
    "benchmark": BenchmarkIdentity,
    "prompt": PromptIdentity,
    "sampling": SamplingParams,
}


def test_the_same_specification_gives_the_same_id_in_every_process():
    # Written down: an id that moves would generate every answer again.
    assert specification().answer_set_id == "d7020a414bc9320e"


def test_a_specification_of_version_1_keeps_its_id():
    stored = specification().model_copy(update={"specification_version": 1})

    assert stored.answer_set_id == "0e75cd64640223eb"
    assert "engine" not in stored.model_dump()
    again = Specification.model_validate_json(stored.model_dump_json())
    assert again.answer_set_id == "0e75cd64640223eb"


def test_each_optional_field_has_a_value_that_ids_leave_out():
    for name, model in {"": Specification, **PARTS}.items():
        optional = {name for name, field in model.model_fields.items() if not field.is_required()}
        left_out = LEFT_OUT[name] if name else LEFT_OUT.keys() - PARTS.keys()
        assert optional - {"specification_version"} == set(left_out)


def test_the_page_of_the_format_has_the_values_that_ids_leave_out():
    page = (ROOT / "docs" / "answer-format.md").read_text()
    assert json.loads(page.partition("```json\n")[2].partition("```")[0]) == LEFT_OUT


def test_a_changed_default_moves_no_id_and_changes_no_stored_specification(
    monkeypatch: pytest.MonkeyPatch,
):
    stored = specification(sampling=SamplingParams(max_tokens=512)).model_dump(mode="json")
    del stored["sampling"]["thinking_token_budget"]  # stored before it was added
    before = specification_id(stored)
    for name, default in (("max_tokens", 1024), ("thinking_token_budget", 100)):
        monkeypatch.setattr(SamplingParams.model_fields[name], "default", default)
    SamplingParams.model_rebuild(force=True)
    Specification.model_rebuild(force=True)
    try:
        again = Specification.model_validate(stored)
        assert specification_id(stored) == again.answer_set_id == before
        assert again.sampling is not None
        assert again.sampling.thinking_token_budget is None
        assert specification(sampling=SamplingParams()).answer_set_id != before
    finally:
        monkeypatch.undo()
        SamplingParams.model_rebuild(force=True)
        Specification.model_rebuild(force=True)


def test_a_field_at_its_default_is_no_part_of_the_id():
    stored = specification().model_dump(mode="json")
    for part, name in (("sampling", "min_p"), ("prompt", "truncate"), ("benchmark", "parameters")):
        del stored[part][name]
    del stored["engine"], stored["repeats"]

    assert specification_id(stored) == specification().answer_set_id


@pytest.mark.parametrize("part", [None, "sampling", "model"])
def test_a_field_that_this_version_does_not_know_changes_the_id(part: str | None):
    stored: dict[str, Any] = specification().model_dump(mode="json")
    (stored[part] if part else stored)["added_later"] = 1

    assert specification_id(stored) != specification().answer_set_id


def test_every_part_of_the_specification_changes_the_id():
    ids = {
        specification().answer_set_id,
        specification(benchmark="other").answer_set_id,
        specification(model="org/other").answer_set_id,
        specification(sampling=SamplingParams(seed=1)).answer_set_id,
        specification(sampling=SamplingParams(max_tokens=513)).answer_set_id,
        specification(repeats=2).answer_set_id,
        specification(method="rank").answer_set_id,
        specification(engine={"dtype": "float16"}).answer_set_id,
        specification(engine={"load_format": "dummy"}).answer_set_id,
        *(_adapted(revision).answer_set_id for revision in ("1", "2")),
    }
    assert len(ids) == 11


def _adapted(revision: str) -> Specification:
    adapter = AdapterIdentity(name="adapter", revision=revision)
    model = specification().model.model_copy(update={"adapter": adapter})
    return specification().model_copy(update={"model": model})


def test_a_model_without_an_adapter_is_stored_as_before_there_were_any():
    assert "adapter" not in specification().model_dump()["model"]
    assert _adapted("1").model_dump()["model"]["adapter"] == {"name": "adapter", "revision": "1"}
    again = Specification.model_validate_json(_adapted("1").model_dump_json())
    assert again.answer_set_id == _adapted("1").answer_set_id


@pytest.mark.parametrize(
    "changes", [{"seed": 7}, {"top_p": 0.5}, {"top_k": 3}, {"min_p": 0.1}], ids=str
)
def test_greedy_decoding_ignores_what_only_sampling_uses(changes: dict[str, Any]):
    greedy, sampled = (
        SamplingParams.model_validate({"temperature": temperature, **changes})
        for temperature in (0.0, 0.7)
    )

    assert effective_sampling(greedy, "generate") == SamplingParams()
    assert effective_sampling(sampled, "generate") == sampled


def test_the_order_of_stop_texts_does_not_matter():
    one = effective_sampling(SamplingParams(stop=("b", "a", "b")), "generate")
    other = effective_sampling(SamplingParams(stop=("a", "b")), "generate")

    assert one == other
    assert one.stop == ("a", "b")


def test_ranking_does_not_sample():
    one = effective_sampling(SamplingParams(temperature=1, max_tokens=3), "rank")
    assert one == effective_sampling(SamplingParams(), "rank")


def test_a_model_name_is_one_component_of_a_path():
    assert specification(model="org/name").folder.split("/")[1] == "org--name"


def test_a_model_name_that_fits_on_no_disk_ends_in_a_hash():
    name = f"org/{'é' * 125}"
    assert path_component(name) == f"org--{'é' * 125}"
    slugs = {path_component(f"{name}{last}") for last in ("é", "éé", "éz")}
    assert len(slugs) == 3
    assert all(len(slug.encode()) <= 255 and slug.startswith("org--é") for slug in slugs)


def test_no_model_name_leads_out_of_its_folder():
    for name in ("..", "../..", "/etc/passwd", "a/../../b", ".", "-\n", "名前"):
        folder = specification(model=name).folder
        assert folder.count("/") == 2
        assert ".." not in folder.split("/")
        assert "" not in folder.split("/")


def test_a_checkpoint_is_told_from_the_training_it_belongs_to():
    assert training_step("run-7/checkpoint-1500") == 1500
    assert model_family("run-7/checkpoint-1500") == "run-7"
    assert training_step("org/name") is None
    assert model_family("org/name") == "org/name"


def test_questions_that_are_asked_again_have_ids_and_a_folder_of_their_own():
    first = specification()
    once = AskedAgain(seed=1, in_flight=16, place="vllm 0.32.0 on cpu with 2 cores")
    places = [once, once.model_copy(update={"place": "vllm 0.32.0 on NVIDIA H100 with 1 GPU"})]
    again = [first.model_copy(update={"asked_again": place}) for place in places]

    assert len({first.answer_set_id, *(known.answer_set_id for known in again)}) == 3
    assert "asked_again" not in first.model_dump()
    assert first.answers_folder == f"answers/{first.folder}"
    assert again[0].answers_folder == f"asked_again/{again[0].folder}"
    assert again[0].asked_first.answer_set_id == first.answer_set_id
    assert Specification.model_validate_json(again[0].model_dump_json()) == again[0]


def test_the_random_order_of_questions_never_changes():
    # Written down: another order on another machine would be another comparison.
    order = AskedAgain(seed=1, in_flight=16, place="").order(8)
    assert order == [5, 7, 4, 1, 3, 6, 2, 0]
    assert AskedAgain(seed=None, in_flight=None, place="").order(3) == [0, 1, 2]
