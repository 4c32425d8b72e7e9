"""Requests that are tokenised before the model is loaded."""

from contextlib import closing
from dataclasses import replace

from regrade.engines.vllm_process.context import Need, choose_max_model_len
from regrade.engines.vllm_process.continuations import windows
from regrade.engines.vllm_process.labels import Passes
from regrade.engines.vllm_process.prompts import Prepared
from regrade.engines.vllm_process.tokenising import PromptsAhead, RequestsSummary


def prepared(
    key: int, length: int, *, new: int = 8, temperature: float = 0.0, ranking=None, error=None
) -> Prepared:
    sampling = {"max_tokens": new, "temperature": temperature}
    return Prepared(key, f"prompt {key}", sampling, [*range(length)], ranking, error=error)


def summary(*requests: Prepared) -> RequestsSummary:
    with closing(PromptsAhead()) as ahead:
        ahead.add(0, requests)
        return ahead.summary


def test_requests_come_back_in_order_and_complete():
    first = [prepared(k, 3 + k) for k in range(5)]
    second = [
        prepared(0, 4, ranking=Passes(([1, 2], [1, 3]), (1, 1), (0, 1))),
        prepared(1, 0, error="The chat template rejects the messages"),
    ]
    with closing(PromptsAhead()) as ahead:
        ahead.add(0, first[:2])
        ahead.add(0, first[2:])
        ahead.add(1, second)

        assert [*ahead.read(0, 0, 3), *ahead.read(0, 3, 2)] == first
        assert [*ahead.read(1, 0, 2)] == second
        assert [*ahead.read(0, 0, 1)] == first[:1]


def test_the_context_holds_every_request():
    """A few dense texts among many long ones decide, whatever their number of characters."""
    requests = [prepared(k, 800) for k in range(300)] + [prepared(k, 3848) for k in range(20)]

    needs = summary(*requests).needs

    context = choose_max_model_len(needs, limit=131_072, explicit=None, truncate=False)
    assert context == 4096
    assert all(request.need.total <= context for request in requests)


def test_the_longest_answer_counts_also_of_a_short_prompt():
    assert summary(prepared(0, 900, new=8), prepared(1, 10, new=500)).needs == [
        Need(900, 8),
        Need(10, 500),
    ]


def test_what_the_requests_need_of_the_engine():
    assert not summary(prepared(0, 5)).sampled
    assert not summary(prepared(0, 5)).ranked
    assert summary(prepared(0, 5), prepared(1, 5, temperature=0.5)).sampled
    assert summary(prepared(0, 5, ranking=[1, 2]), prepared(1, 5)).ranked
    assert not summary(prepared(0, 5, ranking=[1, 2])).passes
    assert summary(
        prepared(0, 5, ranking=Passes(([1, 2], [1, 3]), (1, 1), (0, 1))), prepared(1, 5)
    ).passes


def test_the_windows_of_a_text_do_not_share_a_context():
    text = windows([*range(40)], first_token=0, context=12)

    assert len(text.sequences) > 1
    assert not summary(prepared(0, 5, ranking=text)).passes


def test_a_request_that_cannot_be_rendered_needs_nothing():
    failed = summary(prepared(0, 0, error="first"), prepared(1, 0, error="second"))

    assert (failed.requests, failed.needs, failed.first_error) == (2, [], "first")


def test_a_conversation_gets_room_for_its_later_turns_as_far_as_the_model_allows():
    first = replace(prepared(0, 20, new=10), later=100)
    found = summary(first, prepared(1, 40, new=10))

    assert found.conversation == 130
    assert [max(need.total for need in found.within(limit)) for limit in (1000, 64, 30)] == [
        *(130, 64),
        50,  # what is there needs as much, and is refused as ever
    ]
    assert choose_max_model_len(found.within(64), limit=64, explicit=None, truncate=False) == 64
    assert found.needs == summary(prepared(0, 20, new=10), prepared(1, 40, new=10)).needs
