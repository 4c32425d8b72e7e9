"""Addresses of answer repositories, right and wrong."""

from pathlib import Path

import pytest

from regrade.answers import opening
from regrade.answers.hub import HubRepository
from regrade.answers.local import LocalRepository
from regrade.answers.opening import open_repository
from regrade.settings.errors import RepositoryError
from tests.hub_server.fixtures import Hub

MANIFEST = "answers/b/m/0123456789abcdef/manifest.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "my answers"
    LocalRepository(folder).commit({MANIFEST: b"1"}, "first", parent=None)
    return folder


def test_a_folder_is_opened_by_path_and_by_file_address(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    local = f"file://localhost{folder.as_uri()[7:]}"
    for uri in (str(folder), folder.name, folder.as_uri(), local):
        repository = open_repository(uri, create=False)

        assert repository.uri == str(folder)
        assert repository.head() is not None


@pytest.mark.parametrize(
    ("name", "says"), [("new", "there is no such folder.*regrade import"), ("", "no answers yet")]
)
def test_a_missing_or_empty_folder_is_an_error_unless_it_is_to_be_filled(
    tmp_path: Path, name: str, says: str
) -> None:
    with pytest.raises(RepositoryError, match=says):
        open_repository(str(tmp_path / name), create=False)

    assert open_repository(str(tmp_path / name), create=True).head() is None
    assert list(tmp_path.iterdir()) == []


def test_an_empty_repository_tells_of_answers_that_an_interrupted_run_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "interrupted", {str(tmp_path): ["1234"]}.get)
    with pytest.raises(RepositoryError, match=r"wait on this machine \(1234\).*`regrade publish`"):
        open_repository(str(tmp_path), create=False)


def test_a_folder_with_sweeps_only_names_the_answers_of_a_point(tmp_path: Path) -> None:
    point = tmp_path / "sweeps" / "0123456789ab" / "in_flight-1"
    LocalRepository(point).commit({MANIFEST: b"1"}, "first", parent=None)

    with pytest.raises(RepositoryError) as caught:
        open_repository(str(tmp_path), create=False)

    assert f"points of sweeps, each a repository of its own, such as '{point}'" in str(caught.value)
    assert open_repository(str(point), create=False).head() is not None


def test_what_looks_like_a_hub_name_gets_a_hint() -> None:
    with pytest.raises(RepositoryError, match=r"For the Hub write `hf://datasets/org/none`"):
        open_repository("org/none", create=False)


@pytest.mark.parametrize(
    "uri",
    [
        "hf://models/org/name",
        "hf://org/name",
        "hf://datasets/name",
        "hf://datasets/org/name/sub",
        "hf://datasets/org/name@main",
        "hf://datasets/../name",
        "hf://datasets/org/a b",
        "s3://bucket/answers",
        "https://huggingface.co/datasets/org/name",
        "",
    ],
)
@pytest.mark.parametrize("create", [True, False])
def test_other_addresses_are_refused(uri: str, create: bool) -> None:
    with pytest.raises(RepositoryError, match=r"hf://datasets/ORG/NAME"):
        open_repository(uri, create=create)


def test_a_file_address_with_a_host_is_refused() -> None:
    with pytest.raises(RepositoryError, match="three slashes"):
        open_repository("file://home/me", create=True)


def test_a_dataset_on_the_hub_is_opened(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", hub.token)
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    uri = f"hf://datasets/{hub.repo_id}"

    with pytest.raises(RepositoryError, match="no such dataset"):
        open_repository(uri, create=False)
    repository = open_repository(uri, create=True)
    assert hub.repo().private
    open_repository(uri, create=True)
    assert hub.requests("POST", "/repos/create") == 1
    revision = repository.commit({MANIFEST: b"1"}, "first", parent=repository.head())

    assert isinstance(repository, HubRepository)
    assert open_repository(uri + "/", create=False).head() == revision


@pytest.mark.parametrize("there", [True, False], ids=["private", "absent"])
def test_a_namespace_that_the_token_may_not_write_is_found_when_opening(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    if there:
        hub.store.create("datasets", hub.user, "answers", private=True, url="")
    stranger = hub.store.add_user(f"{hub.user}-stranger")
    monkeypatch.setenv("HF_TOKEN", stranger.write_token)
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)

    with pytest.raises(RepositoryError, match=rf"403.*write access to '{hub.repo_id}'"):
        open_repository(f"hf://datasets/{hub.repo_id}", create=True)
