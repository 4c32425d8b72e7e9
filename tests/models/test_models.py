import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import HfApi
from safetensors.numpy import save_file

from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process import planner
from regrade.hub.retries import RetryPolicy
from regrade.models.files import files_folder, weights_sha256
from regrade.models.fingerprints import cached_sha256, files_sha256
from regrade.models.hub import hub_revisions
from regrade.models.local import resolve_folder
from regrade.models.patterns import named_models
from regrade.models.resolving import resolve_here
from regrade.models.served import resolve_served
from regrade.records.specification import ModelIdentity
from regrade.settings.errors import HubError, ModelError, OperationError, SettingsError
from regrade.settings.files import cache_folder
from tests.builders import WEIGHTS
from tests.http_server import Handler, serving
from tests.hub_server.faults import Action, Answer, Drop
from tests.hub_server.fixtures import Hub
from tests.models.conftest import model_folder

CONFIG = {"model_type": "qwen3", "max_position_embeddings": 4096}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGRADE_CACHE", str(tmp_path / "cache"))
    folder = model_folder(tmp_path / "run-7" / "checkpoint-1500", **CONFIG)
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    return folder


def _revision(folder: Path) -> str:
    return resolve_here(str(folder)).identity.revision


def test_a_folder_is_a_local_model(folder: Path):
    model = resolve_here(str(folder))

    assert model.identity.kind == "local"
    assert model.identity.name == "run-7/checkpoint-1500"
    assert len(model.identity.revision) == 64
    assert model.path == str(folder)
    assert model.revision is None
    assert model.answers_chats is True
    assert model.max_position_embeddings == 4096


@pytest.mark.parametrize("name", ["final", "my-checkpoint-7"])
def test_a_folder_of_another_name_than_a_checkpoints_is_named_without_its_parent(
    folder: Path, name: str
):
    model = resolve_here(f"{folder.rename(folder.parent / name)}/")

    assert model.identity.name == name


def test_only_a_quantization_other_than_that_of_the_checkpoint_is_part_of_the_identity(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(planner, "found_anyway", lambda *_: frozenset[str]())
    stated = CONFIG | {"quantization_config": {"quant_method": "fp8"}}
    (folder / "config.json").write_text(json.dumps(stated))

    plain, named, other = (
        VllmEngine(quantization=name).resolve(str(folder)) for name in (None, "fp8", "humming")
    )
    assert named.identity == plain.identity
    assert other.identity.quantization == "humming"


def test_the_revision_does_not_depend_on_where_the_folder_lies(folder: Path):
    before = _revision(folder)

    assert _revision(folder.rename(folder.parent / "elsewhere")) == before


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.safetensors", f"{WEIGHTS.decode()}others"),
        ("config.json", '{"max_position_embeddings": 8}'),
        ("tokenizer.json", '{"other": 1}'),
        ("chat_template.jinja", "{{ x }}"),
        ("generation_config.json", '{"eos_token_id": 2}'),
        ("hf_quant_config.json", '{"bits": 4}'),
        ("quantize_config.json", '{"bits": 4}'),
        ("quant_config.json", '{"bits": 4}'),
        ("preprocessor_config.json", '{"max_pixels": 4}'),
    ],
)
def test_every_file_that_decides_the_answers_decides_the_revision(
    folder: Path, file: str, content: str
):
    before = _revision(folder)

    (folder / file).write_text(content)

    assert _revision(folder) != before


def test_the_earlier_revision_is_that_without_the_settings_of_images(folder: Path):
    before = resolve_folder(folder, None, needs_weights=True)
    (folder / "processor_config.json").write_text('{"max_pixels": 4}')
    now = resolve_folder(folder, None, needs_weights=True)

    assert before.earlier_revision is None
    assert now.earlier_revision == before.identity.revision != now.identity.revision


def test_without_a_cache_a_file_is_read_once_by_a_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    (folder / "occupied").touch()
    monkeypatch.setenv("REGRADE_CACHE", str(folder / "occupied"))
    read: list[int] = []
    weights = folder / "model.safetensors"

    assert cached_sha256(weights, read.append) == cached_sha256(weights, lambda _: 1 / 0)
    assert sum(read) == weights.stat().st_size


@pytest.mark.parametrize(
    "file", ["README.md", "training_args.bin", "optimizer.pt", "trainer_state.json"]
)
def test_other_files_do_not_change_the_revision(folder: Path, file: str):
    before = _revision(folder)

    (folder / file).write_text("x")

    assert _revision(folder) == before


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", json.dumps(CONFIG | {"text_config": ["no", "object"]})),
        ("tokenizer_config.json", json.dumps({"chat_template": ["no", {"name": "default"}]})),
        ("chat_template.json", "[" * 100_000),
    ],
    ids=["config", "tokenizer", "template"],
)
def test_a_part_of_a_file_that_is_no_object_tells_nothing(folder: Path, file: str, content: str):
    (folder / file).write_text(content)

    assert resolve_here(str(folder)).dtype is None


def test_a_chat_template_may_be_a_file(folder: Path):
    (folder / "tokenizer_config.json").write_text("{}")
    assert resolve_here(str(folder)).answers_chats is False

    (folder / "chat_template.jinja").write_text("{{ messages }}")
    assert resolve_here(str(folder)).answers_chats is True


def test_the_context_may_be_that_of_the_text_model(folder: Path):
    (folder / "config.json").write_text('{"text_config": {"max_position_embeddings": 77}}')

    assert resolve_here(str(folder)).max_position_embeddings == 77


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.json", "no 'config.json'"),
        ("model.safetensors", "no weights"),
        ("tokenizer.json", "no tokenizer"),
    ],
)
def test_a_folder_that_lacks_a_part_is_refused_with_what_was_expected(
    folder: Path, missing: str, message: str
):
    (folder / missing).unlink()
    (folder / "training_args.bin").write_bytes(b"what trainers leave behind is no weights")

    with pytest.raises(ModelError, match=message) as caught:
        resolve_here(str(folder))

    assert "save_pretrained" in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("index", "shards"),
    [
        ("model.safetensors.index.json", ("model-1.safetensors", "model-2.safetensors")),
        ("pytorch_model.bin.index.json", ("pytorch_model-1.bin", "pytorch_model-2.bin")),
        (None, tuple(f"model-0000{part}-of-00002.safetensors" for part in (1, 2))),
    ],
)
def test_a_missing_shard_is_named(folder: Path, index: str | None, shards: tuple[str, str]):
    (folder / "model.safetensors").unlink()
    (folder / shards[0]).write_bytes(WEIGHTS)
    weight_map = {"layer.0": shards[0], "layer.1": shards[1]}
    if index is not None:  # numbered parts need none
        (folder / index).write_text(json.dumps({"weight_map": weight_map}))

    with pytest.raises(
        ModelError, match=f"1 of the weight files .* missing, such as '{shards[1]}'"
    ):
        resolve_here(str(folder))

    (folder / shards[1]).write_bytes(WEIGHTS)
    assert _revision(folder)


def with_header(header: bytes, data: int = 0) -> bytes:
    """Return a safetensors file with this header and so many bytes of tensors."""
    return len(header).to_bytes(8, "little") + header + bytes(data)


TENSOR = b'{"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'
ODD = (
    *(b"[]", b"\xff\xfe", b'{"w": 1}', b'{"w": {"dtype": "F32"}}', b'{"w": {"data_offsets": [0]}}'),
    b'{"__metadata__": []}',
)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        *((WEIGHTS[:left], "is shorter than its header says") for left in (0, 4, 9)),
        (with_header(TENSOR, 7), "is shorter than its header says"),
        *((with_header(header), "has no safetensors header") for header in ODD),
    ],
)
def test_a_weight_file_that_is_cut_or_has_an_odd_header_is_refused(
    folder: Path, content: bytes, says: str
):
    (folder / "model.safetensors").write_bytes(content)

    with pytest.raises(ModelError, match=f"'model.safetensors' {says}"):
        resolve_here(str(folder))


def test_a_header_of_absurd_length_is_not_read(folder: Path):
    with (folder / "model.safetensors").open("r+b") as file:
        file.write((2**40).to_bytes(8, "little"))
        file.truncate(2**40 + 8)  # a sparse file

    with pytest.raises(ModelError, match="has a header of 1099511627776 bytes"):
        resolve_here(str(folder))


def test_weights_with_metadata_and_any_tensor_names_are_whole(folder: Path):
    tensors = {"metadata": np.zeros(2), "model_config": np.zeros(3), "data_offsets": np.zeros(1)}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    assert _revision(folder)


def test_an_empty_weight_file_is_refused(folder: Path):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin").write_bytes(b"")

    with pytest.raises(ModelError, match="'pytorch_model.bin' is empty"):
        resolve_here(str(folder))


def test_dummy_weights_need_no_file(folder: Path):
    (folder / "model.safetensors").unlink()

    assert resolve_here(str(folder), needs_weights=False).identity


@pytest.mark.parametrize("content", ["{", '{"a":' * 100_000])
def test_a_damaged_config_is_refused(folder: Path, content: str):
    (folder / "config.json").write_text(content)

    with pytest.raises(ModelError, match=r"'config\.json' cannot be read as JSON"):
        resolve_here(str(folder))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/no/such/folder", "no folder"),
        ("./here", "no folder"),
        ("a/b/c", "no folder"),
        ("  ", "name is empty"),
    ],
)
def test_a_path_that_is_not_there_is_not_looked_for_on_the_hub(name: str, message: str):
    with pytest.raises(ModelError, match=message):
        resolve_here(name)


def test_a_file_is_no_model(folder: Path):
    with pytest.raises(ModelError, match="is a file"):
        resolve_here(str(folder / "config.json"))


def test_an_unchanged_file_is_hashed_once(folder: Path):
    weights = folder / "model.safetensors"
    digest, stat = cached_sha256(weights), weights.stat()
    (entry,) = (cache_folder() / "sha256").iterdir()
    entry.write_text("f" * 64)
    assert cached_sha256(weights) == "f" * 64, "the memory is asked"

    other = weights.with_name("other")
    other.write_bytes(weights.read_bytes()[::-1])
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other.replace(weights)
    assert weights.stat().st_size == stat.st_size
    changed = cached_sha256(weights)
    assert changed not in (digest, "f" * 64), "another file of the same name, size and time is read"
    weights.write_bytes(b"WEIGHTS")
    assert cached_sha256(weights) != changed, "a changed file is read again"


def test_hashing_that_takes_long_is_announced_once_and_its_progress_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    monkeypatch.setattr("regrade.models.fingerprints.LONG_BYTES", 5)
    monkeypatch.setattr("regrade.models.fingerprints.REPORT_SECONDS", 0.005)
    with (tmp_path / "weights").open("wb") as file:
        file.truncate(200_000_000)  # a sparse file

    for _ in range(2):
        files_sha256(tmp_path, [tmp_path / "weights"])

    said = [record.getMessage() for record in caplog.records]
    assert [message for message in said if message.startswith("hashing 0 GB of ")] == said[:1]
    assert re.search(r"hashing '.+': 0\.[01] of 0\.2 GB", caplog.text)


# On the Hub


@pytest.fixture
def published(hub: Hub, api: HfApi) -> str:
    """Name of a model on the test Hub, with two commits and the tag `first`."""
    name = f"{hub.user}/small"
    api.create_repo(name)
    _upload(api, name, "config.json", json.dumps(CONFIG))
    api.create_tag(name, tag="first")
    _upload(api, name, "tokenizer_config.json", '{"chat_template": "x"}')
    return name


def _upload(api: HfApi, name: str, path: str, content: str) -> None:
    api.upload_file(path_or_fileobj=content.encode(), path_in_repo=path, repo_id=name)


def test_a_hub_model_is_its_commit(api: HfApi, published: str):
    head = api.model_info(published).sha

    model = resolve_here(published)

    assert model.identity.kind == "hub"
    assert (model.identity.name, model.path) == (published, published)
    assert model.identity.revision == model.revision == head
    assert model.answers_chats is True
    assert model.max_position_embeddings == 4096


def test_revisions_are_branches_and_tags(published: str):
    assert set(hub_revisions(published, published)) == {"main", "first"}
    assert named_models([f"{published}@f*,main"]) == [f"{published}@first", f"{published}@main"]


def test_the_files_that_decide_answers_are_downloaded_and_no_others(api: HfApi, published: str):
    weights = ("model.safetensors", "pytorch_model.bin", "original/model.safetensors")
    for name in (*weights, "README.md"):
        _upload(api, published, name, name)
    model = resolve_here(published)
    before = files_folder(model, download=False)
    assert before is not None
    assert weights_sha256(before) == {}

    folder = files_folder(model, download=True)

    assert folder is not None
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {"config.json", "tokenizer_config.json", "model.safetensors"}
    assert files_folder(model, download=False) == folder
    assert weights_sha256(folder) == {weights[0]: hashlib.sha256(weights[0].encode()).hexdigest()}


def test_a_revision_may_be_named(published: str):
    first, newest = resolve_here(f"{published}@first"), resolve_here(published)

    assert first.path == newest.path == published
    assert first.revision != newest.revision
    assert first.answers_chats is False


@pytest.mark.parametrize(
    ("name", "asked"), [("not a name", 0), ("org/ü", 0), ("no/body", 1)], ids=str
)
def test_what_is_not_there_or_cannot_be_a_name_is_refused(
    hub: Hub, published: str, name: str, asked: int
):
    with pytest.raises(ModelError, match="not a folder, and not"):
        resolve_here(name)

    assert hub.requests("GET", "/api/models/") == asked


def test_without_a_connection_a_name_is_looked_for_once_and_the_places_are_told(
    published: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("regrade.models.hub.RETRIES", RetryPolicy(attempts=2, first_wait=1000))

    with pytest.raises(HubError) as caught:
        resolve_here(published)
    said = str(caught.value)
    assert f"no folder '{published}' in '{Path.cwd()}', and no connection to http://127.0" in said
    assert "Correct the name if it is a folder's, connect this machine" in said
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "fault",
    [Answer(429), Answer(503), Drop(), Answer(200, text='{"sha": "\udcff"}'), Answer(200)],
    ids=repr,
)
def test_a_hub_that_fails_once_is_asked_again(hub: Hub, published: str, fault: Action):
    hub.fail("GET", "/api/models/", fault)

    assert resolve_here(published).identity.kind == "hub"
    assert hub.requests("GET", "/api/models/") == 2


@pytest.mark.parametrize(
    ("path", "status"), [("/api/models/", 429), ("/api/models/", 503), ("/resolve/", 503)]
)
@pytest.mark.slow
def test_a_hub_that_keeps_failing_may_be_asked_later(
    hub: Hub, published: str, path: str, status: int
):
    method = "HEAD" if path == "/resolve/" else "GET"
    hub.fail(method, path, Answer(status, {"Retry-After": "0"}), count=-1)

    with pytest.raises(HubError) as caught:
        resolve_here(published)
    assert caught.value.retryable


def test_offline_the_cache_is_asked(published: str, monkeypatch: pytest.MonkeyPatch):
    online = resolve_here(published)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    assert resolve_here(published) == online
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE"):
        resolve_here("someone/else")


def test_the_hash_of_a_folder_is_over_names_and_contents_in_order(tmp_path: Path):
    contents = {f"sub/{number}.bin": bytes([number]) * number for number in range(20)}
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    total = hashlib.sha256()
    for name in sorted(contents):
        total.update(f"{name}\0{hashlib.sha256(contents[name]).hexdigest()}\n".encode())

    assert files_sha256(tmp_path, (tmp_path / name for name in contents)) == total.hexdigest()


# At a server


class _Models(Handler):
    status = 200
    body: object = {"data": [{"id": "small", "max_model_len": 77}, {"id": "large"}]}

    def do_GET(self) -> None:
        found = self.path == "/v1/models"
        self.reply(self.body, self.status if found else 404)


@pytest.fixture
def url() -> Iterator[str]:
    with serving(_Models) as address:
        yield f"{address}/v1"


def test_a_served_model_is_its_name_and_not_its_address(url: str):
    model = resolve_served(
        "small", base_urls=[f"{url}/"], api_key_env="OPENAI_API_KEY", revision="step-500"
    )

    assert model.identity == ModelIdentity(name="small", kind="served", revision="step-500")
    assert model.path == "small"
    assert model.answers_chats is None
    assert model.max_position_embeddings == 77


@pytest.mark.parametrize(
    ("name", "place", "body", "kind", "error"),
    [
        ("smal", "", None, ModelError, "Did you mean 'small'.*Served: large, small"),
        ("small", "elsewhere", None, SettingsError, r"http://127\.0\.0\.1:9/v1/models.*vllm serve"),
        ("small", "without /v1", None, SettingsError, "usually ends in '/v1'"),
        ("small", "", ["hello"], OperationError, "OpenAI-compatible"),
        ("small", "", b"[" * 100_000, OperationError, "OpenAI-compatible"),
    ],
    ids=["another name", "no server", "no API", "no list", "nested"],
)
def test_a_model_that_is_not_served_is_refused_with_what_to_change(
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    place: str,
    body: object,
    kind: type[Exception],
    error: str,
):
    address = {"elsewhere": "http://127.0.0.1:9/v1", "without /v1": url.removesuffix("/v1")}
    if body is not None:
        monkeypatch.setattr(_Models, "body", body)
    with pytest.raises(kind, match=error):  # the kind decides the exit code
        resolve_served(name, base_urls=[address.get(place, url)], api_key_env="OPENAI_API_KEY")


def test_a_worker_sends_no_other_credential_as_a_key(url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REGRADE_API_KEY_VARIABLES", "OPENAI_API_KEY, OURS")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with pytest.raises(
        SettingsError, match=r"api_key_env` is 'HF_TOKEN', but .* OPENAI_API_KEY, O"
    ):
        resolve_served("any", base_urls=[url], api_key_env="HF_TOKEN")
    with pytest.raises(ModelError):
        resolve_served("no-such-model", base_urls=[url], api_key_env="OURS")


@pytest.mark.parametrize("key", ["very-secret\n", " very-secret", "very secret", "very-sécret"])
def test_a_key_that_is_none_is_named_by_its_variable_and_not_shown(
    url: str, monkeypatch: pytest.MonkeyPatch, key: str
):
    monkeypatch.setenv("MY_KEY", key)

    with pytest.raises(SettingsError, match="environment variable MY_KEY has a space") as caught:
        resolve_served("small", base_urls=[url], api_key_env="MY_KEY")

    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(("key", "state"), [(None, "is not set"), ("secret", "is rejected")])
def test_a_refused_key_is_bad_input_and_its_variable_is_named(
    url: str, monkeypatch: pytest.MonkeyPatch, key: str | None, state: str
):
    monkeypatch.setattr(_Models, "status", 401)
    monkeypatch.delenv("MY_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("MY_KEY", key)

    with pytest.raises(SettingsError, match=f"MY_KEY {state}") as caught:
        resolve_served("small", base_urls=[url], api_key_env="MY_KEY")

    assert "secret" not in str(caught.value)


def test_weights_that_may_not_be_read_are_named(
    demo_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a worker, which has a user of its own, a checkpoint may be readable for its owner only."""

    def refuse(folder: Path, files: object) -> str:
        raise PermissionError(13, "Permission denied", str(folder / "model.safetensors"))

    monkeypatch.setattr("regrade.models.local.files_sha256", refuse)

    with pytest.raises(ModelError, match=r"may not read '.*model.safetensors'.*chmod"):
        resolve_folder(demo_model, None, needs_weights=True)


@pytest.fixture
def configured(tmp_path: Path) -> Path:
    """A folder with a configuration and sparse weights, whose hash would take hours."""
    made = model_folder(tmp_path / "model", **CONFIG)
    (made / "tokenizer.json").unlink()
    with (made / "model.safetensors").open("wb") as file:
        file.truncate(3 << 40)
    return made


def test_the_configuration_is_a_model_to_plan_and_its_weights_are_not_read(configured: Path):
    planned = VllmEngine().resolve_to_plan(str(configured), needs_tokenizer=False)
    assert planned.identity.name == "model"
    with pytest.raises(ModelError, match="no tokenizer"):
        VllmEngine().resolve_to_plan(str(configured), needs_tokenizer=True)


def test_of_a_model_to_plan_no_weights_are_downloaded(api: HfApi, published: str, tmp_path: Path):
    _upload(api, published, "model.safetensors", "weights")

    VllmEngine().resolve_to_plan(published, needs_tokenizer=False)

    assert list((tmp_path / "hub-cache").rglob("config.json"))
    assert not list((tmp_path / "hub-cache").rglob("*.safetensors"))
