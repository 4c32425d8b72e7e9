"""Read, list, score and verify repositories of older versions of regrade, and continue formats 2 and 3: see tests/frozen."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tasks.generate
from regrade.answers.local import LocalRepository
from regrade.answers.opening import open_repository
from regrade.answers.sets import AnswerSet, list_sets
from regrade.answers.spool import Spool
from regrade.answers.verify import verify
from regrade.jobs.continuing import kept
from regrade.jobs.job import GenerationJob
from regrade.jobs.plans_of_job import plans_of
from regrade.settings import Reuse, SamplingParams
from tasks.plan import find_missing
from tasks.publish import publish_answers
from tasks.work import Work
from tests.answering import answering, said
from tests.command_line import DEMO, ROOT, demo_parameters, regrade
from tests.crash.machines import NoArtifact
from tests.pictures import picture_config
from tests.reasoning_model import reasoning_model
from tests.sums import Answering

FROZEN = ROOT / "tests" / "frozen"
SCORERS = {"demo-arithmetic": "number", "demo-choice": "choice_logprob"}


VERSIONS = {"2026-11-22": 1, "format-2": 2, "format-3": 3}
"""Version of the answer format by folder."""
ROWS = {"2026-11-22": (800, 250), "format-2": (800, 250), "format-3": (80, 25)}
"""Rows of the complete repository, and of each answer set of the incomplete one."""
SPELLED = {"extra": ["load_format=auto", "seed=0"]}
"""Settings of the engine in `format-3`, which ids no longer hold."""
SPELLED_OPTIONS = (
    "--limit",
    "40",
    *(f"--engine.extra={argument}" for argument in SPELLED["extra"]),
)


@pytest.fixture(params=VERSIONS)
def written_by(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def complete(written_by: str, tmp_path: Path) -> Path:
    return copy_of(f"{written_by}/complete", tmp_path)


@pytest.fixture
def incomplete(written_by: str, tmp_path: Path) -> Path:
    return copy_of(f"{written_by}/incomplete", tmp_path)


def copy_of(name: str, folder: Path) -> Path:
    return Path(shutil.copytree(FROZEN / name, folder / "answers"))


def answer_sets(folder: Path) -> dict[str, AnswerSet]:
    repository = open_repository(str(folder), create=False)
    found = list_sets(repository, repository.head() or "")
    return {answers.manifest.specification.benchmark.name: answers for answers in found}


def test_ids_follow_from_the_specifications_as_they_did(complete: Path, written_by: str) -> None:
    for answers in answer_sets(complete).values():
        assert answers.manifest.schema_version == VERSIONS[written_by]
        assert answers.manifest.specification.answer_set_id == answers.manifest.answer_set_id


def test_it_holds_what_it_says(complete: Path, written_by: str) -> None:
    repository = open_repository(str(complete), create=False)
    found = verify(repository, repository.head() or "", None)

    assert not found.problems
    assert (found.answer_sets, found.rows, found.scorings) == (2, ROWS[written_by][0], 2)


@pytest.mark.usefixtures("mlflow_database")
def test_scores_of_an_older_hash_are_stale_and_stay_beside_the_new_ones(tmp_path: Path) -> None:
    complete = copy_of("2026-11-22/complete", tmp_path)
    before = regrade("list", "--answers", complete, "--json").document
    scored = regrade("score", "--stale", "--answers", complete, "--json")
    after = regrade("list", "--answers", complete, "--json").document

    assert scored.code == 0, scored.err
    for old, new in zip(before["answer_sets"], after["answer_sets"], strict=True):
        assert [score["stale"] for score in old["scores"]] == [True]
        assert sorted(score["stale"] for score in new["scores"]) == [False, True]
        accuracies = {(score["accuracy"], score["n"]) for score in new["scores"]}
        assert accuracies == {(old["scores"][0]["accuracy"], 400)}
        assert {score["scorer"] for score in new["scores"]} == {SCORERS[old["benchmark"]]}


@pytest.mark.usefixtures("mlflow_database")
def test_scores_of_a_version_that_misread_are_stale_and_the_answers_are_read_again(
    tmp_path: Path,
) -> None:
    folder = copy_of("format-3/letters-of-commands", tmp_path)
    scored = regrade("score", "--stale", "--answers", folder, "--json")
    assert scored.code == 0, scored.err
    [answers] = regrade("list", "--answers", folder, "--json").document["answer_sets"]
    found = {(score["version"], score["stale"], score["accuracy"]) for score in answers["scores"]}
    assert found == {(3, True, 1.0), (4, False, 0.5)}


def test_a_folder_with_a_log_goes_on_with_a_file_for_each_commit(tmp_path: Path) -> None:
    """Older versions of regrade then refuse the folder: they would not see what follows."""
    complete = copy_of("format-2/complete", tmp_path)
    log = complete / ".regrade" / "log.jsonl"
    lines = log.read_bytes()
    repository = LocalRepository(complete)
    before = str(repository.head())
    files = repository.files(before)
    path = sorted(path for path in files if path.endswith("manifest.json"))[0]
    was = repository.fetch(path, before).read_bytes()

    after = repository.commit({path: was + b"\n"}, "next", parent=before)
    last = repository.commit({path: was + b"\n\n"}, "and next", parent=after)

    again = LocalRepository(complete)
    assert again.head() == last
    assert again.fetch(path, before).read_bytes() == was
    assert again.fetch(path, after).read_bytes() == was + b"\n"
    same = again.files(before).items() ^ files.items()
    assert {path for path, _ in same} <= {"README.md"}
    assert again.resolve(before[:8]) == before
    closed = log.read_bytes().removeprefix(lines).splitlines()
    assert len(closed) == 2  # one broken line alone would be overwritten
    assert not any("revision" in json.loads(line) for line in closed)


@pytest.mark.usefixtures("mlflow_database")
def test_what_is_incomplete_is_scored_as_it_is(incomplete: Path, written_by: str) -> None:
    scored = regrade("score", "--answers", incomplete, "--json")
    listed = regrade("list", "--answers", incomplete, "--json").document["answer_sets"]

    assert scored.code == 0, scored.err
    found = {(answers["complete"], answers["scores"][0]["n"]) for answers in listed}
    assert found == {(False, ROWS[written_by][1])}


def test_answers_are_found_under_an_id_that_holds_the_spelling_of_settings() -> None:
    demo = demo_parameters()
    demo["engine"] |= SPELLED
    job = GenerationJob.model_validate(demo | {"model": str(DEMO / "regrade-demo"), "limit": 40})
    folder = FROZEN / "format-3" / "complete"
    stored = answer_sets(folder)
    plans = plans_of(job, job.engine.resolve(job.model))

    assert {plan.benchmark.name for plan in plans} == stored.keys()
    for plan in plans:
        found = kept(plan, stored[plan.benchmark.name].repository)
        assert plan.specification.engine == {"dtype": "float32"}
        answers = stored[plan.benchmark.name].manifest
        assert found.specification == answers.specification != plan.specification
        assert answers.state == "complete"


def earlier_sampling(folder: Path) -> dict[str, Any]:
    """The job of `earlier-sampling`, with its model."""
    model = reasoning_model(
        DEMO / "regrade-demo", folder / "thinking", temperature=0.7, presence_penalty=0.5
    )
    questions = {"path": str(DEMO / "data/arithmetic.jsonl"), "target_column": "answer"}
    asked = {"prompt": "{{ question }}", "format": "chat", "scorer": "number"}
    sums = {"name": "sums", **questions, **asked}
    engine = {"kind": "vllm", "enforce_eager": True}
    return {"model": str(model), "engine": engine, "limit": 6, "datasets": [sums]}


@pytest.mark.parametrize(("thinking", "state"), [("auto", "complete"), ("off", "incomplete")])
def test_answers_with_earlier_defaults_of_sampling_are_found(
    thinking: str, state: str, tmp_path: Path
) -> None:
    job = GenerationJob.model_validate(
        {**earlier_sampling(tmp_path), "prompt": {"thinking": thinking}}
    )
    repository = LocalRepository(FROZEN / "format-3/earlier-sampling")
    (plan,) = plans_of(job, job.engine.resolve(job.model))

    found = kept(plan, repository)

    assert found.specification.sampling != plan.specification.sampling
    manifests = [answers.manifest for answers in list_sets(repository, str(repository.head()))]
    stored = [(manifest.specification, manifest.state) for manifest in manifests]
    assert (found.specification, state) in stored


def test_answers_with_earlier_defaults_of_sampling_are_continued_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.generate, "ProgressArtifact", NoArtifact)
    repository = LocalRepository(copy_of("format-3/earlier-sampling", tmp_path))
    settings = {**earlier_sampling(tmp_path), "prompt": {"thinking": "off"}}
    job = GenerationJob.model_validate(settings)
    (plan,) = plans_of(job, job.engine.resolve(job.model))
    plan = kept(plan, repository)
    work, engine = Work(plan, repository, Spool(tmp_path / "spool"), Reuse()), Answering()

    with work.spool:
        find_missing(work)
        tasks.generate.generate_missing.fn([work], engine, job.engine)
        publish_answers.fn(work)

    assert [request.sampling for request in engine.asked] == [SamplingParams()] * 3
    assert work.published is not None
    manifest = work.published.manifest
    assert (manifest.state, manifest.rows) == ("complete", 6)
    assert manifest.specification == plan.specification


@pytest.mark.slow  # loads vLLM once more
@pytest.mark.vllm
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("written_by", "name", "options", "added", "expected"),
    [
        ("format-2", "model", (), 150, (0.745, 0.79)),
        ("format-3", "regrade-demo", SPELLED_OPTIONS, 15, (0.75, 0.775)),
    ],
)
def test_what_is_incomplete_goes_on_where_it_stopped(
    incomplete: Path,
    tmp_path: Path,
    name: str,
    options: tuple[str, ...],
    added: int,
    expected: tuple[float, float],
) -> None:
    model = shutil.copytree(DEMO / "regrade-demo", tmp_path / name)
    before = answer_sets(incomplete)
    done = regrade(
        *("evaluate", "--config", DEMO / "demo.yaml", "--answers", incomplete, "--json"),
        *("--model", model, *options),
        process=True,
        timeout=500,
        REGRADE_SPOOL=str(tmp_path / "spool"),
    )
    after = answer_sets(incomplete)

    assert done.code == 0, done.err
    assert after.keys() == before.keys() == SCORERS.keys()
    for benchmark, answers in after.items():
        assert answers.manifest.answer_set_id == before[benchmark].manifest.answer_set_id
        assert answers.manifest.state == "complete"
        assert answers.manifest.shards[:1] == before[benchmark].manifest.shards
        assert sum(shard.rows for shard in answers.manifest.shards[1:]) == added
        assert answers.manifest.schema_version == 3
        assert answers.manifest.sessions[-1].rows == added
        assert not verify(answers.repository, answers.revision).problems
    sets = done.document["answer_sets"]
    accuracy = {entry["benchmark"]: entry["scores"][0]["metrics"]["accuracy"] for entry in sets}
    assert accuracy == dict(zip(SCORERS, expected, strict=True))


def checked(folder: Path) -> AnswerSet:
    """The only answer set of a repository without problems."""
    repository = LocalRepository(folder)
    head = repository.head() or ""
    assert verify(repository, head).problems == []
    [answers] = list_sets(repository, head)
    return answers


def shown_by(answers: AnswerSet) -> set[str]:
    rows = [row for batch in answers.batches(["images"]) for row in batch.to_pylist()]
    return {sha256 for row in rows for sha256 in row["images"]}


def test_stored_images_are_read_by_their_hashes(tmp_path: Path) -> None:
    answers = checked(copy_of("format-3/images", tmp_path))

    assert answers.manifest.images == "stored"
    kinds = {answers.images.read(sha256).media_type for sha256 in shown_by(answers)}
    assert kinds == {"image/png", "image/jpeg", "image/webp"}


@pytest.mark.prefect
def test_answers_of_the_version_that_stored_no_image_are_continued_and_get_theirs(
    tmp_path: Path, prefect_server: str
) -> None:
    folder = copy_of("format-3/images-not-stored", tmp_path)
    before = checked(folder)
    assert (before.manifest.images, before.manifest.rows) == (None, 2)
    assert len(shown_by(before)) == 2

    model = {"id": "one", "root": "/served/one"}
    with answering(lambda _: (200, said("#### 1")), lambda: model) as url:
        questions = FROZEN / "format-3" / "images-not-stored.parquet"
        config = picture_config(tmp_path, url, [], path=str(questions))
        words = ("generate", "--config", config, "--answers", folder, "--model", "one")
        done = regrade(
            *words, PREFECT_API_URL=prefect_server, REGRADE_SPOOL=str(tmp_path / "spool")
        )

    assert done.code == 0, done.out + done.err
    after = checked(folder)
    assert after.manifest.answer_set_id == before.manifest.answer_set_id
    assert (after.manifest.images, after.manifest.state) == ("stored", "complete")
    assert len(shown_by(after)) == 3
    assert shown_by(after) == after.images.places.keys()
