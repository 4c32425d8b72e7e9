from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from regrade.answers.manifest import Session
from regrade.engines.base import shows_images
from regrade.jobs.plan import Plan, PooledRequests, make_plan, request_seed
from regrade.models.base import ResolvedModel
from regrade.records import Completion, Sample
from regrade.records.columns import generation_row
from regrade.records.specification import BenchmarkIdentity, ModelIdentity
from regrade.settings import PromptSettings, SamplingParams, SamplingSettings
from regrade.settings.errors import SettingsError
from tests.builders import session, specification
from tests.records.test_images import file_of
from tests.sums import MODEL, SERVER, Seen, Sums, plan_of

PNG = file_of("PNG")
SERVED = replace(MODEL, identity=ModelIdentity(name="m", kind="served", revision="r"))


def made(benchmark: Sums | None = None, model: ResolvedModel = MODEL, **prompt: Any) -> Plan:
    """Return the plan of a single greedy answer to each question."""
    settings = PromptSettings(**prompt)
    return make_plan(benchmark or Sums(1), model, SERVER, sampling=None, prompt=settings, repeats=1)


def test_what_is_set_by_hand_replaces_the_benchmarks_own_sampling_params():
    assert plan_of(1).specification.sampling == SamplingParams(max_tokens=64, stop=("\n",))
    chosen = plan_of(1, sampling=SamplingSettings(temperature=0.6)).specification.sampling
    assert chosen == SamplingParams(temperature=0.6, max_tokens=64, stop=("\n",))


def test_repeats_draw_from_different_seeds_and_the_same_ones_each_time():
    hot = SamplingSettings(temperature=1.0)
    plan = plan_of(2, repeats=3, sampling=hot)
    seeds = [request.sampling.seed for request in plan.requests(plan.missing(set()))]
    again = [request.sampling.seed for request in plan.requests(plan.missing(set()))]

    assert len(set(seeds)) == 6
    assert seeds == again
    assert request_seed(0, "id-0", 0) == seeds[0]
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_the_number_of_answers_is_the_benchmarks_unless_it_is_set_or_decoding_is_greedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Sums, "repeats", 16)
    warm, cold = SamplingSettings(temperature=0.7), SamplingSettings(temperature=0.0)

    assert plan_of(2, repeats=None, sampling=warm).specification.repeats == 16
    assert plan_of(2, repeats=3, sampling=warm).specification.repeats == 3
    assert plan_of(2, repeats=None, sampling=cold).specification.repeats == 1


def test_repeats_with_greedy_decoding_are_refused():
    with pytest.raises(SettingsError, match="Set `sampling.temperature` above 0"):
        plan_of(2, repeats=3)


def test_repeats_are_rendered_once():
    plan = plan_of(3, repeats=4, sampling=SamplingSettings(temperature=1.0))
    rendered = []
    prompt = plan.benchmark.prompt
    plan.benchmark.prompt = lambda sample: rendered.append(sample.id) or prompt(sample)

    requests = [*plan.requests(plan.missing(set()))]

    assert rendered == ["id-0", "id-1", "id-2"]
    assert [request.key for request in requests] == [*range(12)]
    assert requests[4].prompt == requests[7].prompt == prompt(plan.samples[1])


def test_a_chat_prompt_needs_a_chat_template():
    model = ResolvedModel(MODEL.identity, "org/tiny", None, False, 64)
    with pytest.raises(SettingsError, match="has no chat template.*prompt.format=completion"):
        made(model=model)


def test_a_limit_above_the_number_of_questions_is_no_limit():
    class Limited(Sums):
        @property
        def identity(self) -> BenchmarkIdentity:
            return specification().benchmark.model_copy(update={"limit": 10})

    assert made(Limited(9)).specification.benchmark.limit is None
    assert made(Limited(10)).specification.benchmark.limit == 10


def test_cutting_prompts_is_part_of_the_specification():
    cut = made(truncate=True)
    assert cut.specification.answer_set_id != plan_of(1).specification.answer_set_id


def test_a_day_that_the_template_prints_is_that_of_the_first_session_also_when_it_is_continued():
    plan = replace(plan_of(2), prints_the_day=True)
    first, later = session(prompt_day=date(2026, 3, 1)), session(9, prompt_day=date(2026, 3, 2))
    before_it_was_kept = session(started_at=datetime(2026, 2, 5, 12, tzinfo=UTC))

    def days(*sessions: Session) -> set[date | None]:
        return {request.day for request in plan.requests(plan.missing(set()), sessions)}

    assert days(first, later) == {date(2026, 3, 1)}
    assert days(before_it_was_kept, later) == {date(2026, 2, 5)}
    assert days() == {datetime.now().astimezone().date()}
    assert plan.requests([], (first,)).day == date(2026, 3, 1)
    assert plan_of(2).requests([], (first,)).day is None


FUNCTION = {"type": "function", "function": {"name": "look"}}


class Offering(Seen):
    """They offer a function, too."""

    def samples(self) -> list[Sample]:
        return [replace(s, tools=(FUNCTION,)) for s in super().samples()]


def test_a_request_takes_the_images_and_functions_of_its_question_along() -> None:
    plan = made(Offering(1), SERVED)

    (request,) = plan.requests(plan.missing(set()))

    assert request.images == plan.samples[0].images
    assert [image.content for image in request.images] == [PNG]
    assert request.tools == (FUNCTION,)


@pytest.mark.parametrize(("benchmark", "shows"), [(Offering(1), True), (Sums(1), False)])
def test_requests_tell_without_being_read_whether_they_show_images(
    benchmark: Sums, shows: bool
) -> None:
    plan = made(benchmark)
    asked, other = (planned.requests(planned.missing(set())) for planned in (plan, made()))

    assert shows_images(asked) is shows
    assert shows_images(PooledRequests((other, asked))) is shows
    assert shows_images(plan.requests([])) is False
    assert shows_images([*asked]) is shows


def test_a_row_names_the_images_that_were_sent() -> None:
    sample = Offering(1).samples()[0]
    mark = sample.images[0].mark

    def stored(prompt: str) -> object:
        return generation_row(sample, 0, Completion(0, prompt, text="red"))["images"]

    assert stored(f"What is it? {mark}") == [sample.images[0].sha256]
    assert stored("What is it?") is None


def test_the_models_turn_can_be_begun_in_a_chat_and_that_is_part_of_the_identity():
    plan, plain = made(prefill="```python\n"), made()

    (request,) = plan.requests(plan.missing(set()))

    assert request.prompt[-1] == {"role": "assistant", "content": "```python\n"}
    assert request.prompt[:-1] == plan.benchmark.prompt(plan.samples[0])
    assert plan.specification.prompt.prefill == "```python\n"
    assert "prefill" not in plain.specification.prompt.model_dump()
    assert plan.specification.answer_set_id != plain.specification.answer_set_id


def test_a_beginning_of_answers_that_are_no_chats_or_come_from_a_server_is_refused(
    monkeypatch: pytest.MonkeyPatch,
):
    with pytest.raises(SettingsError, match="`prompt.prefill` begins the model's answers in chats"):
        made(model=SERVED, prefill="So")
    monkeypatch.setattr(Sums, "prompt", lambda self, sample: "1 + 1 =")
    with pytest.raises(SettingsError, match="has no answers that `prompt.prefill` could begin"):
        made(prefill="So")


class InTheMiddle(Sums):
    cut = "middle"


def test_a_benchmark_that_cuts_prompts_in_the_middle_has_it_in_its_id_and_requests():
    plain, cut, served = made(), made(InTheMiddle(1)), made(InTheMiddle(1), SERVED)

    assert (cut.specification.prompt.cut, cut.specification.prompt.truncate) == ("middle", True)
    assert "cut" not in plain.specification.model_dump(mode="json")["prompt"]
    assert cut.specification.answer_set_id != plain.specification.answer_set_id
    assert [request.cut_middle for request in cut.requests(cut.missing(set()))] == [True]
    for not_cut in (plain, served):
        assert not not_cut.specification.prompt.truncate
        assert [r.cut_middle for r in not_cut.requests(not_cut.missing(set()))] == [False]
