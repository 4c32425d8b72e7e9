from regrade.settings import SamplingParams
from regrade.specification import model_family, training_step
from tests.builders import specification


def test_the_same_specification_gives_the_same_id_in_every_process():
    # Written down: an id that moves would generate every answer again.
    assert specification().answer_set_id == specification().answer_set_id
    assert specification().answer_set_id == "0e75cd64640223eb"


def test_every_part_of_the_specification_changes_the_id():
    ids = {
        specification().answer_set_id,
        specification(benchmark="other").answer_set_id,
        specification(model="org/other").answer_set_id,
        specification(sampling=SamplingParams(seed=1)).answer_set_id,
        specification(sampling=SamplingParams(max_tokens=513)).answer_set_id,
        specification(repeats=2).answer_set_id,
        specification(method="rank").answer_set_id,
    }
    assert len(ids) == 7


def test_a_model_name_is_one_component_of_a_path():
    assert specification(model="org/name").folder.split("/")[1] == "org--name"


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
