"""Replays: which stored answers can be read, with which tokens, and by which settings of their own model."""

from typing import Any

import pytest
from pydantic import ValidationError

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.engines.openai import OpenAIEngine
from regrade.engines.vllm import VllmEngine
from regrade.jobs.replay import OWN_READINGS, ReplayJob, ReplayQuestions
from regrade.records import Sample
from regrade.records.specification import PromptIdentity
from regrade.settings import Reuse, SamplingParams
from regrade.settings.errors import SettingsError
from tests.builders import row, session
from tests.stored import numbers, publish


def questions(answers: AnswerSet, readings: int = 1, limit: int | None = None) -> ReplayQuestions:
    return ReplayQuestions(answers, readings=readings, limit=limit)


def only(answers: AnswerSet) -> Sample:
    [sample] = questions(answers).samples()
    return sample


def test_an_answer_is_read_with_its_prompt_its_tokens_and_their_numbers(
    repository: LocalRepository,
) -> None:
    answers = publish(repository, [row(7, "It is 7.", token_ids=[4, 5, 6])])

    sample = only(answers)

    assert (sample.id, sample.index, sample.subset) == ("sample-00007", 7, "odd")
    assert questions(answers).prompt(sample) == "What is 7?"
    stored = sample.stored
    assert stored is not None
    assert (stored.text, stored.tokens, stored.rendered) == ("It is 7.", (4, 5, 6), True)
    assert (stored.prompt_tokens, stored.completion_tokens, stored.stops) == (5, 7, False)


def test_a_completion_with_stop_texts_is_no_chat_and_may_have_ended_in_one(
    repository: LocalRepository,
) -> None:
    completion = PromptIdentity(format="completion", template="{{ question }}", n_shots=0)
    changes = {"prompt": completion, "sampling": SamplingParams(stop=("\n",))}

    stored = only(publish(repository, [row(7)], **changes)).stored

    assert stored is not None
    assert (stored.tokens, stored.rendered, stored.stops) == (None, False, True)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"error": "Too long.", "error_permanent": True}, "There is no answer to read: Too long."),
        ({"prompt_kind": "messages"}, "Only its server knows"),
        ({"prompt_truncated": True}, "was cut"),
        ({"reasoning": "So 7."}, "its reasoning was told apart"),
    ],
)
def test_an_answer_whose_tokens_nobody_knows_is_not_read(
    repository: LocalRepository, changes: dict[str, Any], reason: str
) -> None:
    answers = publish(repository, [row(1, token_ids=None, **changes), row(2)])

    errors = {sample.id: sample.error for sample in questions(answers).samples()}

    assert reason in str(errors["sample-00001"])
    assert errors["sample-00002"] is None
    with pytest.raises(SettingsError, match="can be read"):
        questions(publish(repository, [row(1, **changes)], benchmark="others"))


def test_reasoning_is_read_if_its_tokens_were_stored(repository: LocalRepository) -> None:
    sample = only(publish(repository, [row(1, reasoning="So 1.", token_ids=[4])]))

    assert sample.error is None


def test_each_repeat_has_an_answer_of_its_own_and_all_are_read_again(
    repository: LocalRepository,
) -> None:
    rows = [row(1, "first"), row(1, "second", repeat=1), row(2, "third")]
    asked = questions(publish(repository, rows, repeats=2), readings=OWN_READINGS)

    first, second = asked.samples()

    assert asked.readings_of_all == 4
    texts = [part.stored and part.stored.text for part in first.by_repeat]
    assert texts == ["first", "second", "first", "second"]
    assert [part.error for part in second.by_repeat] == [None, "There is no answer to read."] * 2


def test_a_replay_is_told_apart_by_answers_their_content_readings_and_limit(
    repository: LocalRepository,
) -> None:
    answers = publish(repository, numbers(0, 4))
    grown = publish(repository, numbers(4, 8), total=8, benchmark="others")
    more = publish(repository, numbers(8, 12), total=8, benchmark="others")
    asked = [questions(answers), questions(answers, OWN_READINGS), questions(answers, limit=2)]
    asked += [questions(grown), questions(more)]

    assert len({found.by_own_model.answer_set_id for found in asked}) == len(asked)
    assert questions(answers, limit=9).by_own_model == questions(answers).by_own_model
    own = questions(answers).by_own_model
    assert own.answers_folder.startswith("replays/replay-sums/org--tiny/")
    assert own.benchmark.source == f"answers/{answers.manifest.answer_set_id}"


def test_choices_that_were_ranked_and_imported_prompts_are_refused(
    repository: LocalRepository,
) -> None:
    ranked = publish(repository, numbers(0, 2), method="rank")
    unknown = PromptIdentity(format=None, template="", n_shots=None)
    imported = publish(repository, numbers(0, 2), prompt=unknown)

    with pytest.raises(SettingsError, match="log-probabilities of choices"):
        questions(ranked)
    with pytest.raises(SettingsError, match="without the format of its prompts"):
        questions(imported)


def test_a_server_needs_the_name_of_its_model_and_leaves_the_other_engine_as_it_is(
    repository: LocalRepository,
) -> None:
    engine = OpenAIEngine(base_url="http://127.0.0.1:1/v1", max_concurrency=3)

    with pytest.raises(ValidationError, match="needs `model`"):
        ReplayJob(answer_set="1234", engine=engine)
    job = ReplayJob(answer_set="1234", model="served", engine=engine)
    assert job.own_engine(publish(repository, numbers(0, 2)).manifest) == VllmEngine()


def test_the_model_that_answered_keeps_what_it_computed_and_is_not_read_again(
    repository: LocalRepository,
) -> None:
    answers = publish(repository, numbers(0, 2))
    settings = VllmEngine(dtype="bfloat16", max_model_len=99, max_num_seqs=3).model_dump()
    stored = session(engine_settings=settings)
    manifest = answers.manifest.model_copy(update={"sessions": (stored,)})
    engine = VllmEngine(dtype="float16", kv_cache_dtype="fp8", max_num_seqs=8)
    job = ReplayJob(answer_set="1234", engine=engine, reuse=Reuse(fresh=True))

    own = job.own_engine(manifest)

    assert (own.dtype, own.kv_cache_dtype, own.max_num_seqs) == ("bfloat16", "auto", 8)
    assert own.max_model_len is None
    assert job.of("org/tiny", own, own=True).reuse == Reuse()
    assert job.of("org/tiny", engine, own=False).reuse.fresh


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"extra": ["trust_remote_code=true"]}, "`engine.extra trust_remote_code=true`, by which"),
        ({"extra": ["seed=1", "worker-cls=their.Worker"]}, "`engine.extra worker-cls=their.W"),
        ({"dtype": "int3"}, "settings of its engine that cannot be used"),
        ({"extra": 3}, "settings of its engine that cannot be used"),
    ],
)
def test_a_repository_brings_no_code_that_the_job_does_not_name(
    repository: LocalRepository, settings: dict[str, Any], problem: str
) -> None:
    answers = publish(repository, numbers(0, 2))
    stored = session(engine_settings=settings)
    manifest = answers.manifest.model_copy(update={"sessions": (stored,)})

    with pytest.raises(SettingsError, match=problem):
        ReplayJob(answer_set="1234").own_engine(manifest)
    if isinstance(extra := settings.get("extra"), list):
        trusting = ReplayJob(answer_set="1234", engine=VllmEngine(extra=tuple(extra)))
        assert trusting.own_engine(manifest).extra == tuple(extra)
