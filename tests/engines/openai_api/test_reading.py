"""Servers that cannot read stored answers are named as such, before anything is stored."""

import pytest

from regrade.engines.openai_api.reading import prompt_logprobs
from regrade.records import Completion, Request, StoredAnswer
from regrade.settings import SamplingParams
from regrade.settings.errors import SettingsError
from tests.engines.openai_api.test_client import Misbehaving, chosen, opened, server

__all__ = ["server"]
STORED = StoredAnswer("It is 7.", (4, 5), True, None, 2, False)


def read(server: Misbehaving) -> list[Completion]:
    request = Request(0, "What is 7?", SamplingParams(max_tokens=1), stored=STORED)
    with opened(server) as client:
        return [completion for batch in client.generate([request]) for completion in batch]


def test_a_server_without_a_tokenizer_cannot_read_answers(server: Misbehaving):
    with pytest.raises(SettingsError, match=r"cannot read stored answers.*/tokenize answers 404"):
        read(server)
    assert not server.bodies


@pytest.mark.parametrize("given", [{}, {"prompt_logprobs": [None, None, None]}])
def test_a_server_without_log_probabilities_of_the_prompt_cannot_read_answers(
    server: Misbehaving, given: dict[str, object]
):
    server.rendered, server.text = (), "What is 7? It is 7."
    server.behaviour = lambda _: chosen(**given)

    with pytest.raises(SettingsError, match="gave no log-probabilities of the prompt"):
        read(server)


def test_the_exact_tokens_are_sent_and_read_at_the_end_of_the_prompt(server: Misbehaving):
    server.rendered, server.text = (), "What is 7? It is 7."
    places = [
        None,
        {"4": {"logprob": -0.5}, "9": {"logprob": -0.25}},
        {"5": {"logprob": -0.125}, "9": {"logprob": -2.0}},
    ]
    server.behaviour = lambda _: chosen(prompt_logprobs=places)

    [found] = read(server)

    [sent] = server.bodies
    assert (sent["prompt"], sent["prompt_logprobs"]) == ([[1, 4, 5]], 1)
    assert (found.prompt_tokens, found.token_ids) == (1, (4, 5))
    assert found.token_logprobs == (-0.5, -0.125)
    assert found.token_is_greedy == (False, True)
    assert found.label_logprobs == (-0.625,)


def test_a_token_that_the_server_does_not_rank_is_no_reading():
    with pytest.raises(SettingsError, match="gave no log-probabilities"):
        prompt_logprobs({"prompt_logprobs": [{"9": {"logprob": -1.0}}]}, [4])
