"""Datasets on the Hub are imported as the files that they hold."""

import json
from pathlib import Path

import pytest

from regrade.answers.hub import HubRepository
from regrade.answers.local import LocalRepository
from regrade.cli.main import run
from regrade.exchange.importing.building import Names
from regrade.exchange.importing.files import ImportFileError
from regrade.exchange.importing.importer import import_files
from regrade.settings.errors import RepositoryError, SettingsError
from tests.exchange.importing.test_handbook import ROW
from tests.exchange.importing.test_lm_eval import TIME, results, sample
from tests.exchange.importing.writing import jsonl, parquet
from tests.hub_server.fixtures import Hub


@pytest.fixture
def handbook(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubRepository:
    """A dataset `*-results` as `push_to_hub` writes it."""
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_TOKEN", hub.read_token)
    dataset = HubRepository(
        f"{hub.user}/TwinLlama-3.1-8B-results", endpoint=hub.endpoint, token=hub.token
    )
    rows = parquet(tmp_path / "rows.parquet", [ROW])
    files = {"data/train-00000-of-00001.parquet": rows, "README.md": b"# Results\n"}
    dataset.commit(files, "Upload dataset", parent=None)
    return dataset


def test_the_results_of_the_handbook_are_imported_from_the_hub_as_they_are(
    handbook: HubRepository, repository: LocalRepository, tmp_path: Path
):
    imports = import_files(repository, [handbook.uri], names=Names(benchmark="posts"))

    [one] = imports.sets
    assert one.answers.manifest.specification.model.name == "TwinLlama-3.1-8B"
    assert one.place == f"{handbook.uri}/data/train-00000-of-00001.parquet"
    assert (imports.skipped, imports.failed) == ((), ())  # the README is not downloaded
    # The same file from this machine is the same answer set.
    names = Names(model="TwinLlama-3.1-8B", benchmark="posts")
    [same] = import_files(repository, [tmp_path / "rows.parquet"], names=names).sets
    assert same.answers.manifest.answer_set_id == one.answers.manifest.answer_set_id


def test_an_older_revision_of_a_dataset_can_be_named(
    handbook: HubRepository,
    repository: LocalRepository,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    first = str(handbook.head())
    rows = parquet(tmp_path / "later.parquet", [ROW | {"accuracy": 3, "style": 2}])
    handbook.commit({"data/train-00000-of-00001.parquet": rows}, "Judged", parent=first)
    where = ["--benchmark", "posts", "--answers", repository.uri, "--json"]

    scores = []
    for address in (handbook.uri, f"{handbook.uri}@{first[:8]}"):
        assert run(["import", address, *where]) == 0
        [entry] = json.loads(capsys.readouterr().out)["answer_sets"]
        scores.append([original["name"] for original in entry["originals"]])

    assert scores == [["accuracy", "style"], []]


def test_a_file_that_readers_take_from_beside_another_is_found(
    hub: Hub, repository: LocalRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    dataset = HubRepository(hub.repo_id, endpoint=hub.endpoint, token=hub.token)
    results(tmp_path / "run")
    jsonl(tmp_path / "run" / f"samples_sums_{TIME}.jsonl", sample(0, "0", 1.0))
    jsonl(tmp_path / "run" / "other.jsonl", {"a": 1})
    files = {f"run/{path.name}": path for path in (tmp_path / "run").iterdir()}
    dataset.commit(files, "Upload", parent=None)

    imports = import_files(repository, [dataset.uri])

    [one] = imports.sets
    assert one.originals[0].original is not None
    assert one.originals[0].original.reported == 0.5
    assert imports.skipped == (f"{dataset.uri}/run/other.jsonl",)


def test_errors_name_the_dataset_and_not_a_file_of_the_cache(
    handbook: HubRepository, repository: LocalRepository, hub: Hub, tmp_path: Path
):
    with pytest.raises(
        SettingsError, match=f"'{handbook.uri}/data/train-.*does not name its bench"
    ):
        import_files(repository, [handbook.uri], strict=True)
    broken = {"data/train-00000-of-00001.parquet": b"PAR1"}
    handbook.commit(broken, "Broken", parent=handbook.head())
    with pytest.raises(ImportFileError, match=f"File '{handbook.uri}/data/train-.*not Parquet"):
        import_files(repository, [handbook.uri], names=Names(benchmark="posts"))
    with pytest.raises(RepositoryError, match="there is no such dataset on the Hub"):
        import_files(repository, [f"hf://datasets/{hub.user}/none"])
    empty = HubRepository(f"{hub.user}/empty", endpoint=hub.endpoint, token=hub.token)
    empty.commit({"README.md": b"# Nothing\n"}, "Begin", parent=None)
    with pytest.raises(RepositoryError, match="it has no files to import"):
        import_files(repository, [empty.uri])
    assert repository.head() is None
