"""Stored answers that a plan continues, and rows that it asks again."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.manifest import Shard
from regrade.answers.origin import Origin, begin_session
from regrade.answers.publishing import publish_answers
from regrade.answers.spool import Spool, spool_folder
from regrade.engines.vllm import VllmEngine
from regrade.jobs.continuing import Remaining, kept, log_version_1, remaining
from regrade.jobs.plan import Plan, make_plan
from regrade.models.base import ResolvedModel
from regrade.records import Completion
from regrade.records.columns import generation_row
from regrade.settings import PromptSettings, Reuse, SamplingParams, SamplingSettings
from regrade.settings.errors import DamagedAnswersError
from tests.builders import session
from tests.sums import MODEL, Seen, Sums, plan_of

TOTAL = 4
FAILED = {"text": None, "error": "500", "error_permanent": False}
REFUSED = {"text": None, "error": "too long", "error_permanent": True}

pytestmark = pytest.mark.usefixtures("spool_home")


def opened(plan: Plan, repository: LocalRepository) -> Spool:
    return Spool(spool_folder(repository.uri, plan.specification.answer_set_id))


def rows(plan: Plan, numbers: range, **changes: Any) -> list[dict[str, Any]]:
    return [
        generation_row(plan.samples[n], 0, Completion(n, "sent", text=str(n)), 1.0) | changes
        for n in numbers
    ]


def store(
    plan: Plan, repository: LocalRepository, *parts: list[dict[str, Any]], **settings: Any
) -> None:
    """Publish rows, each list of them by a session of its own."""
    for number, part in enumerate(parts):
        one = session(number).model_copy(update=settings)
        with opened(plan, repository) as spool:
            begin_session(spool, repository.uri, plan.description, one)
            spool.append(part)
            publish_answers(repository, spool, plan.description)


def left(plan: Plan, repository: LocalRepository, **reuse: bool) -> tuple[list[int], Remaining]:
    with opened(plan, repository) as spool:
        found = remaining(plan, repository, spool, Reuse(**reuse))
    return [sample.index for sample, _ in found.missing], found


def shard_of(plan: Plan, repository: LocalRepository, number: int) -> tuple[Shard, Path]:
    """A published shard, and its file."""
    stored = left(plan, repository)[1].stored
    assert stored is not None
    shard = stored.manifest.shards[number]
    return shard, repository.folder / stored.folder / shard.name


@pytest.mark.parametrize(
    ("last", "reuse", "missing"),
    [({}, {}, []), (FAILED, {}, [3]), (FAILED, {"keep_failed": True}, []), (REFUSED, {}, [])],
)
def test_only_failed_requests_that_may_succeed_are_sent_again_unless_they_are_to_be_kept(
    repository: LocalRepository, last: dict[str, Any], reuse: dict[str, bool], missing: list[int]
):
    plan = plan_of(TOTAL)
    store(plan, repository, [*rows(plan, range(3)), *rows(plan, range(3, 4), **last)])

    assert left(plan, repository, **reuse)[0] == missing


def test_fresh_asks_for_all_answers_again(repository: LocalRepository):
    plan = plan_of(TOTAL)
    store(plan, repository, rows(plan, range(2)), rows(plan, range(2, 4)))

    missing, found = left(plan, repository, fresh=True)

    assert missing == list(range(TOTAL))
    assert (len(found.replaced), found.fresh) == (2, True)


@pytest.mark.parametrize("again", [True, False])
def test_an_interrupted_fresh_run_goes_on_where_it_stopped(
    repository: LocalRepository, again: bool
):
    plan = plan_of(TOTAL)
    store(plan, repository, rows(plan, range(TOTAL)))
    _, found = left(plan, repository, fresh=True)
    with opened(plan, repository) as spool:  # and then the machine lost its power
        begin_session(
            spool, repository.uri, plan.description, session(9), replaced=found.replaced, fresh=True
        )
        spool.append(rows(plan, range(1)))

    missing, then = left(plan, repository, fresh=again)

    assert missing == [1, 2, 3]
    assert (then.replaced, then.fresh) == (found.replaced, True)


def test_what_was_in_a_damaged_shard_is_asked_again_and_nothing_else(repository: LocalRepository):
    plan = plan_of(TOTAL)
    store(plan, repository, rows(plan, range(2)), rows(plan, range(2, 4)))
    shard, file = shard_of(plan, repository, 1)
    file.write_bytes(b"PAR1")

    missing, found = left(plan, repository, heal=True)

    assert missing == [2, 3]
    assert (found.replaced, found.fresh) == ((shard.sha256,), False)


def test_a_damaged_set_that_is_not_healed_says_how(repository: LocalRepository):
    plan = plan_of(TOTAL)
    store(plan, repository, rows(plan, range(2)))
    shard_of(plan, repository, 0)[1].unlink()

    with pytest.raises(DamagedAnswersError, match="with `--heal` generates again what is lost"):
        left(plan, repository)


def test_answers_under_the_id_of_an_earlier_spelling_are_taken_until_there_are_others(
    repository: LocalRepository,
):
    def plan(*extra: str) -> Plan:
        engine = VllmEngine(extra=extra)
        return make_plan(
            Sums(TOTAL), MODEL, engine, sampling=None, prompt=PromptSettings(), repeats=1
        )

    spelled = plan("load_format=auto", "seed=1")
    (earlier,) = spelled.earlier
    assert spelled.specification == plan("seed=1").specification != earlier
    old = replace(spelled, specification=earlier)

    assert kept(spelled, repository) is spelled
    with opened(old, repository):  # answers that are not published yet
        assert kept(spelled, repository).specification == earlier
    store(old, repository, rows(old, range(2)))
    found = kept(spelled, repository, ".another-machine")
    assert found.specification == earlier
    assert left(found, repository)[0] == [2, 3]

    store(spelled, repository, rows(spelled, range(1)))
    assert kept(spelled, repository) is spelled


@pytest.mark.parametrize(("benchmark", "is_taken"), [(Sums(TOTAL), True), (Seen(TOTAL), False)])
def test_answers_of_a_model_without_its_settings_of_images_are_taken_unless_images_were_shown(
    repository: LocalRepository, benchmark: Sums, is_taken: bool
):
    def plan(model: ResolvedModel) -> Plan:
        prompt = PromptSettings()
        return make_plan(benchmark, model, VllmEngine(), sampling=None, prompt=prompt, repeats=1)

    old = plan(MODEL)
    identity = MODEL.identity.model_copy(update={"revision": "b" * 64})
    new = plan(replace(MODEL, identity=identity, earlier_revision=MODEL.identity.revision))
    store(old, repository, rows(old, range(2)))

    assert new.specification != old.specification
    assert (kept(new, repository).specification == old.specification) == is_taken


def test_a_set_of_version_1_stays_as_it_is_and_the_log_says_so(
    repository: LocalRepository, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    sampling = SamplingSettings(seed=3, stop=("b", "a"))  # version 1 kept what cannot matter
    plan = plan_of(TOTAL, sampling=sampling)
    chosen = SamplingParams(seed=3, stop=("b", "a"), max_tokens=64)
    changes = {"specification_version": 1, "sampling": chosen}
    old = replace(plan, specification=plan.specification.model_copy(update=changes))

    log_version_1(plan, repository)
    assert not caplog.text  # nothing is stored
    store(old, repository, rows(old, range(TOTAL)))
    log_version_1(plan, repository)
    assert f"({old.specification.answer_set_id}) has format version 1" in caplog.text
    assert left(plan, repository)[0] == list(range(TOTAL))

    caplog.clear()
    store(plan, repository, rows(plan, range(1)))
    log_version_1(plan, repository)
    assert not caplog.text  # the new set is continued


def test_a_spool_of_version_1_is_published_with_its_session():
    one = session(1).model_dump(mode="json", exclude={"id"})
    plan = plan_of(1)
    noted = {
        "repository": "/answers",
        "description": plan.description.model_dump(mode="json"),
        "session": one | {"rows": 3, "generate_seconds": 2.0},
    }

    origin = Origin.model_validate(noted)

    assert [(s.id, s.rows, s.generate_seconds) for s in origin.sessions] == [(None, 3, 2.0)]
