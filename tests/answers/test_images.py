"""Images of questions in answer repositories: each once, with the answers that show it, and never believed."""

import hashlib
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pytest

from regrade.answers import parquet
from regrade.answers.base import Repository
from regrade.answers.images import INDEX, SMALL_SHARDS, ImageIndex, ImageShard
from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.parquet import parquet_bytes
from regrade.answers.publishing import publish_answers, publish_leftovers
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool, spool_folder
from regrade.answers.verify import verify
from regrade.records.columns import IMAGE_SCHEMA
from regrade.settings.errors import DamagedAnswersError, HubError
from tests.answers.conftest import Opener, add
from tests.builders import description, row, session
from tests.pictures import SVG, file_of, header_of, image, publish_showing, showing
from tests.stored import again, commit_manifest, table_bytes

RED, GREEN, BLUE = (image(number) for number in range(3))


def paths_of(repository: Repository) -> list[str]:
    """Paths of the shards of images at the head."""
    head = repository.head()
    assert head is not None
    return sorted(path for path in repository.files(head, "images") if path.endswith(".parquet"))


def problems(repository: Repository) -> list[tuple[str, str]]:
    found = verify(repository, repository.head() or "").problems
    return [(problem.path, problem.problem) for problem in found]


def test_images_are_stored_with_the_answers_that_show_them_in_one_commit(
    opened: Opener, tmp_path: Path
) -> None:
    rows = [showing(1, RED, GREEN), showing(2, RED), row(3)]

    answers = publish_showing(opened(), tmp_path / "spool", rows, [RED, GREEN])

    repository = opened()
    assert answers.revision == repository.head()
    assert len(paths_of(repository)) == 1
    stored = again(answers).images
    assert [stored.read(shown.sha256) for shown in (RED, GREEN)] == [RED, GREEN]
    assert stored.read(GREEN.sha256).content == GREEN.content
    assert BLUE.sha256 not in stored
    assert problems(repository) == []


def test_an_image_is_stored_once_for_all_models(opened: Opener, tmp_path: Path) -> None:
    publish_showing(opened(), tmp_path / "1", [showing(1, RED)], [RED], model="org/one")
    first = paths_of(opened())
    publish_showing(opened(), tmp_path / "2", [showing(1, RED)], [RED], model="org/two")
    assert paths_of(opened()) == first

    third = [showing(1, RED), showing(2, BLUE)]
    answers = publish_showing(opened(), tmp_path / "3", third, [RED, BLUE], model="org/three")

    shards = again(answers).images.index.shards
    assert [shard.images for shard in shards] == [(RED.sha256,), (BLUE.sha256,)]
    assert [shard.name[:10] for shard in shards] == ["part-00000", "part-00001"]
    assert problems(opened()) == []


def test_of_two_machines_that_publish_the_same_images_one_stores_them(
    opened: Opener, tmp_path: Path
) -> None:
    described = description(2, images="stored")
    repository = opened()
    with Spool(tmp_path / "here") as here, Spool(tmp_path / "there") as there:
        for number, spool in enumerate((here, there), 1):
            begin_session(spool, repository.uri, described, session(number))
            spool.keep_images([RED, GREEN])
            spool.append([showing(number, RED if spool is here else GREEN)])
        for spool in (here, there):
            answers = publish_answers(opened(), spool, described)

    assert answers is not None
    assert answers.manifest.state == "complete"
    [shard] = again(answers).images.index.shards
    assert shard.images == (RED.sha256, GREEN.sha256)
    assert problems(opened()) == []


def test_a_spool_keeps_an_image_once_and_releases_it_when_it_is_published(
    repository: LocalRepository, tmp_path: Path
) -> None:
    described = description(3, images="stored")
    with Spool(tmp_path / "spool") as spool:
        spool.keep_images([RED])
        spool.keep_images([RED, GREEN])
        assert len(spool.images()) == 2
        add(repository, spool, described, [showing(1, RED)])
        assert spool.images() == []
        answers = add(repository, spool, described, [showing(2, GREEN)])

    assert {RED.sha256, GREEN.sha256} <= answers.images.places.keys()
    assert problems(repository) == []


def test_images_alone_are_not_worth_a_spool(tmp_path: Path) -> None:
    with Spool(tmp_path / "spool") as spool:
        spool.keep_images([RED])

    assert not (tmp_path / "spool").exists()


def test_answers_that_a_killed_run_left_are_published_with_their_images(
    repository: LocalRepository,
) -> None:
    described = description(2, images="stored")
    folder = spool_folder(repository.uri, described.specification.answer_set_id)
    with Spool(folder) as spool:
        begin_session(spool, repository.uri, described, session())
        spool.keep_images([RED, GREEN])
        spool.append([showing(1, RED), showing(2, GREEN)])

    [left] = publish_leftovers(repository.uri)

    assert left.error is None
    assert left.published is not None
    assert left.published.images.read(GREEN.sha256) == GREEN
    assert problems(repository) == []
    assert not folder.exists()


def test_a_commit_that_failed_after_it_was_made_stores_no_image_again(
    repository: LocalRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = description(2, images="stored")
    commit = LocalRepository.commit

    def unheard(self: LocalRepository, *args: Any, **options: Any) -> str:
        commit(self, *args, **options)
        raise HubError(self.uri, "committing", "the answer was lost.", True)

    with Spool(tmp_path / "spool") as spool:
        spool.keep_images([RED])
        with monkeypatch.context() as patch, pytest.raises(HubError):
            patch.setattr(LocalRepository, "commit", unheard)
            add(repository, spool, described, [showing(1, RED)])
        answers = add(repository, spool, described, [showing(2, RED)])
        assert spool.images() == []

    assert answers.manifest.rows == 2
    assert len(answers.images.index.shards) == 1
    assert problems(repository) == []


def test_many_small_shards_are_joined_by_the_commit_that_adds_another(
    opened: Opener, tmp_path: Path
) -> None:
    shown = [image(number) for number in range(SMALL_SHARDS + 1)]
    for number, one in enumerate(shown):
        before = paths_of(opened()) if number else []
        rows, spool = [showing(1, one)], tmp_path / str(number)
        answers = publish_showing(opened(), spool, rows, [one], model=f"org/m{number}")

    assert len(before) == SMALL_SHARDS
    assert len(paths_of(opened())) == 2
    assert all(again(answers).images.read(image.sha256) == image for image in shown)
    assert problems(opened()) == []


def test_a_shard_is_of_bounded_size(
    repository: LocalRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = [image(number) for number in range(5)]
    two = 2 * max(len(image.content) for image in shown)
    monkeypatch.setattr("regrade.answers.images.SHARD_BYTES", two)

    answers = publish_showing(repository, tmp_path / "spool", [showing(1, *shown)], shown)

    assert [len(shard.images) for shard in answers.images.index.shards] == [2, 2, 1]
    assert problems(repository) == []


def test_a_folders_images_a_shard_of_them_and_the_answers_beside_it_load_by_themselves(
    repository: LocalRepository, tmp_path: Path
) -> None:
    answers = publish_showing(repository, tmp_path / "spool", [showing(1, RED)], [RED])
    cache = str(tmp_path / "cache")
    shard = str(repository.folder / answers.images.folder / answers.images.index.shards[0].name)

    images = datasets.load_dataset("parquet", data_files=shard, split="train", cache_dir=cache)
    shown = datasets.load_dataset(repository.uri, "sums-images", split="train", cache_dir=cache)
    rows = datasets.load_dataset(repository.uri, "sums", split="train", cache_dir=cache)

    assert images[0]["image"].size == (3, 2)
    assert isinstance(shown.features["image"], datasets.Image)
    assert (shown[0]["sha256"], shown[0]["image"].size) == (RED.sha256, (3, 2))
    assert rows["images"] == [[RED.sha256]]


def test_images_that_must_not_be_copied_are_named_by_dataset_revision_and_row(
    repository: LocalRepository, tmp_path: Path
) -> None:
    described = description(1, images="source")

    answers = add(repository, tmp_path / "spool", described, [showing(1, RED)])

    assert answers.manifest.images == "source"
    assert paths_of(repository) == []
    assert answers.manifest.specification.benchmark.source_revision == "b" * 64
    assert [r["index"] for b in answers.batches(["index"]) for r in b.to_pylist()] == [1]
    assert problems(repository) == []


def test_answers_of_the_version_that_copied_no_image_are_intact(
    repository: LocalRepository, tmp_path: Path
) -> None:
    answers = add(repository, tmp_path / "spool", description(1), [showing(1, RED)])

    assert b'"images"' not in (repository.folder / answers.folder / "manifest.json").read_bytes()
    assert problems(repository) == []


@pytest.fixture
def stored(repository: LocalRepository, tmp_path: Path) -> AnswerSet:
    """An answer set with a question that shows `RED`."""
    return publish_showing(repository, tmp_path / "spool", [showing(1, RED)], [RED])


def replaced(answers: AnswerSet, content: bytes, named: str = RED.sha256) -> AnswerSet:
    """The set after a stranger committed another content under the hash of its only image, or under another hash."""
    rows = [{"sha256": named, "image": {"bytes": content, "path": f"{named}.png"}}]
    table = pa.Table.from_pylist(rows, schema=IMAGE_SCHEMA)
    return with_shard(answers, parquet_bytes(table), [named])


def with_shard(answers: AnswerSet, content: bytes, hashes: list[str]) -> AnswerSet:
    """The set after a stranger committed a shard in place of the only one."""
    [old] = answers.images.index.shards
    digest = hashlib.sha256(content).hexdigest()
    listed = {"name": f"part-00009-{digest[:8]}.parquet", "bytes": len(content), "sha256": digest}
    shard = ImageShard.model_validate(listed | {"images": hashes})
    folder = answers.images.folder
    files = {
        f"{folder}/{shard.name}": content,
        f"{folder}/{INDEX}": ImageIndex(shards=(shard,)).model_dump_json().encode(),
    }
    removed = [f"{folder}/{old.name}"]
    repository = answers.repository
    repository.commit(files, "from a stranger", parent=repository.head(), removed=removed)
    return again(answers)


HOSTILE = {
    "svg": (SVG, "no PNG, JPEG or WebP"),
    "another image": (GREEN.content, "has the content of"),
    "huge": (header_of(60_000, 60_000), "pixels"),
    "large": (header_of(8_000, 7_000), "pixels"),
    "gif": (file_of("GIF"), "no PNG, JPEG or WebP"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_such_image_is_neither_read_nor_verified(
    repository: LocalRepository, stored: AnswerSet, kind: str
) -> None:
    content, reason = HOSTILE[kind]

    answers = replaced(stored, content)

    with pytest.raises(DamagedAnswersError, match=reason):
        answers.images.read(RED.sha256)
    assert any(reason in problem for _, problem in problems(repository))


def test_a_file_under_its_own_hash_is_no_image_for_that(
    repository: LocalRepository, stored: AnswerSet
) -> None:
    named = hashlib.sha256(SVG).hexdigest()

    answers = replaced(stored, SVG, named)

    with pytest.raises(DamagedAnswersError, match="no PNG, JPEG or WebP"):
        answers.images.read(named)
    lacks = f"'{answers.images.folder}' lacks 1 of 1, such as '{RED.sha256[:8]}'"
    assert any(lacks in problem for _, problem in problems(repository))


def test_a_shard_that_unpacks_to_more_than_the_limit_is_refused(
    repository: LocalRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MAX_DECODED_BYTES", 64 << 20)
    shown = [image(number) for number in range(30)]
    hashes = [image.sha256 for image in shown]
    stored = publish_showing(repository, tmp_path / "spool", [showing(1, *shown)], shown)
    one = pa.DictionaryArray.from_arrays([0] * 30, pa.array([b"x" * (4 << 20)]))
    images = pa.StructArray.from_arrays([one, pa.array(hashes)], ["bytes", "path"])
    table = pa.table({"sha256": hashes, "image": images})
    bomb = table_bytes(table, store_schema=False, dictionary_pagesize_limit=64 << 20)
    assert len(bomb) < 100_000

    answers = with_shard(stored, bomb, hashes)

    with pytest.raises(DamagedAnswersError, match="more than 67,108,864 bytes once decompressed"):
        answers.images.read(hashes[0])


def test_a_list_of_images_that_lies_is_damage(
    repository: LocalRepository, stored: AnswerSet
) -> None:
    [shard] = stored.images.index.shards
    path = f"{stored.images.folder}/{INDEX}"

    def listed(*shards: ImageShard) -> list[tuple[str, str]]:
        content = ImageIndex(shards=shards).model_dump_json().encode()
        repository.commit({path: content}, "from a stranger", parent=repository.head())
        return problems(repository)

    more = shard.model_copy(update={"images": (RED.sha256, GREEN.sha256)})
    missing = shard.model_copy(update={"name": "part-00001-00000000.parquet"})
    larger = shard.model_copy(update={"bytes": shard.bytes + 1})
    assert any("says 2 images, the file has 1" in text for _, text in listed(more))
    assert any("lists it, but it does not exist" in text for _, text in listed(missing))
    assert any(f"says {shard.bytes + 1} bytes" in text for _, text in listed(larger))
    assert any("in another shard, too" in text for _, text in listed(shard, shard))
    assert any("does not have it" in text for _, text in listed())
    repository.commit({path: b"[]"}, "from a stranger", parent=repository.head())
    assert any("not a list of images" in text for _, text in problems(repository))


def test_a_place_for_images_that_does_not_exist_is_no_manifest(
    repository: LocalRepository, stored: AnswerSet
) -> None:
    commit_manifest(stored, images="elsewhere")

    assert any("not a manifest: images" in text for _, text in problems(repository))
