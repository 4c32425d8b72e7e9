"""The files of a model, and what two models do not share beside their weights."""

import hashlib
from pathlib import Path

import pytest

from regrade.models.files import settings_difference, settings_digests, weights_sha256
from tests.models.conftest import model_folder


def model(folder: Path, **files: str) -> Path:
    model_folder(folder, architectures=["Mine"], transformers_version=folder.name)
    (folder / "model.safetensors").write_bytes(folder.name.encode())
    (folder / "trainer_state.json").write_text(folder.name)
    for name, text in files.items():
        (folder / name.replace("_json", ".json").replace("_jinja", ".jinja")).write_text(text)
    return folder


def difference(one: Path, other: Path) -> str | None:
    return settings_difference(settings_digests(one), settings_digests(other))


def test_checkpoints_of_a_training_differ_in_their_weights_only(tmp_path: Path):
    one, other = model(tmp_path / "one"), model(tmp_path / "other")
    assert difference(one, other) is None
    assert weights_sha256(one) == {"model.safetensors": hashlib.sha256(b"one").hexdigest()}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"config_json": '{"rope_theta": 1}'}, "'config.json' is another"),
        ({"tokenizer_json": '{"added": 1}'}, "'tokenizer.json' is another"),
        ({"chat_template_jinja": "{{ x }}"}, "only one of the two has 'chat_template.jinja'"),
        ({"generation_config_json": '{"eos_token_id": 3}'}, "only one of the two has 'generation_"),
        ({"quantize_config_json": '{"bits": 4}'}, "only one of the two has 'quantize_config.json'"),
    ],
)
def test_another_configuration_tokenizer_template_or_quantisation_is_named(
    tmp_path: Path, files: dict[str, str], says: str
):
    one, other = model(tmp_path / "one"), model(tmp_path / "other", **files)
    assert says in str(difference(one, other))
    assert says in str(difference(other, one))


def test_weights_in_the_hubs_cache_are_known_by_the_names_of_its_blobs(tmp_path: Path):
    digest = "ab" * 32
    (tmp_path / digest).write_bytes(b"large")
    folder = tmp_path / "snapshot"
    folder.mkdir()
    (folder / "model.safetensors").symlink_to(tmp_path / digest)
    assert weights_sha256(folder) == {"model.safetensors": digest}
