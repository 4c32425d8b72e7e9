"""Images of questions in a real flow: kept with the answers, once for all models, or left in their source."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet, list_sets
from regrade.answers.verify import verify
from tests.answering import answering, said
from tests.command_line import regrade
from tests.pictures import image, picture_config

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]
SHOWN = [image(number, kind) for number, kind in enumerate(("PNG", "JPEG", "WEBP", "PNG"))]


def generated(answers: Path, config: Path, model: str, server: str, *words: str) -> list[AnswerSet]:
    """Generate, and return all answer sets of the repository."""
    done = regrade(
        *("generate", "--config", config, "--answers", answers, "--model", model, *words),
        PREFECT_API_URL=server,
        REGRADE_SPOOL=str(answers.parent / "spool"),
    )
    assert done.code == 0, done.out + done.err
    repository = LocalRepository(answers)
    head = repository.head()
    assert head is not None
    assert verify(repository, head).problems == []
    return list_sets(repository, head)


def serving(name: str) -> AbstractContextManager[str]:
    """A server of a model."""
    reply = said("#### 1")
    return answering(lambda _: (200, reply), lambda: {"id": name, "root": f"/served/{name}"})


@pytest.mark.parametrize("stays", [False, True], ids=["copied", "stays"])
def test_answers_are_published_with_the_images_of_their_questions(
    tmp_path: Path, prefect_server: str, stays: bool
) -> None:
    answers = tmp_path / "answers"
    for name in ("one", "two"):
        with serving(name) as url:
            changes = {"images_stay": True} if stays else {}
            config = picture_config(tmp_path, url, SHOWN, **changes)
            sets = generated(answers, config, name, prefect_server)

    assert [kept.manifest.state for kept in sets] == ["complete"] * 2
    rows = [row["images"] for batch in sets[0].batches(["images"]) for row in batch.to_pylist()]
    assert sorted(rows) == sorted([image.sha256] for image in SHOWN)
    assert [kept.manifest.images for kept in sets] == ["source" if stays else "stored"] * 2
    if stays:
        assert not (answers / "images").exists()
        return
    assert [len(list((answers / "images" / "pictures").iterdir()))] == [2]  # a shard and the list
    assert [sets[1].images.read(image.sha256) for image in SHOWN] == SHOWN
    assert "pictures-images" in (answers / "README.md").read_text()
    assert not list((tmp_path / "spool").glob("*/*/*"))


def test_a_smaller_run_stores_the_images_of_its_questions_and_a_larger_one_the_rest(
    tmp_path: Path, prefect_server: str
) -> None:
    with serving("one") as url:
        config = picture_config(tmp_path, url, SHOWN)
        generated(tmp_path / "answers", config, "one", prefect_server, "--limit", "2")
        sets = generated(tmp_path / "answers", config, "one", prefect_server)

    assert [len(shard.images) for shard in sets[-1].images.index.shards] == [2, 2]
    assert {image.sha256 for image in SHOWN} == sets[-1].images.places.keys()
