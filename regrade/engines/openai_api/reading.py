"""Read stored answers through a server: the log-probability of each of their tokens, in one pass.

Of the servers known, only vLLM's can: it takes prompts of token ids and gives the log-probabilities of their tokens
(`prompt_logprobs`), and tells and reads tokens by `/tokenize` and `/detokenize`
(https://docs.vllm.ai/en/stable/serving/openai_compatible_server/).
"""

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from regrade.engines.openai_api.bodies import ordered_choices
from regrade.engines.openai_api.transport import RefusedError, Server
from regrade.engines.vllm_process.continuations import answer_tokens
from regrade.records import Completion, Request
from regrade.settings.errors import SettingsError

_CANNOT = (
    "The server cannot read stored answers, for which it must tell tokens (`/tokenize`, `/detokenize`) and give the "
    "log-probabilities of a prompt's tokens (`prompt_logprobs`), as vLLM's server does. Ask such a server, or read them with vLLM "
    "on this machine (`--engine vllm`)"
)


async def read_answer(request: Request, server: Server, model: str) -> Completion:
    """Return the tokens of a stored answer with their log-probabilities.

    Args:
        request: Its prompt, and the answer.
        server: The server.
        model: Name under which it serves the model.

    Raises:
        RefusedError: If the server rejects the request.
        SettingsError: If it cannot read answers at all.
    """
    started = time.monotonic()
    # The rules of tokens are the same for vLLM on this machine, and are not made for an event loop.
    loop = asyncio.get_running_loop()
    ids, answer = await asyncio.to_thread(_tokens_of, request, server, model, loop)
    # The row needs no prompt: that of the answer has it.
    if isinstance(answer, str):
        return Completion(
            request.key, "", prompt_tokens=len(ids), error=answer, error_permanent=True
        )
    body = {
        "model": model,
        "prompt": [[*ids, *answer]],
        "max_tokens": 1,
        "temperature": 0.0,
        "prompt_logprobs": 1,
    }
    response = await server.post("completions", body)
    [choice] = ordered_choices(response, 1)
    logprobs, is_greedy = prompt_logprobs(choice, answer)
    return Completion(
        request.key,
        "",
        prompt_tokens=len(ids),
        completion_tokens=1,
        latency=time.monotonic() - started,
        label_logprobs=(math.fsum(logprobs),),
        label_method="per_choice",
        label_is_greedy=(all(is_greedy),),
        token_ids=tuple(answer),
        token_logprobs=tuple(logprobs),
        token_is_greedy=tuple(is_greedy),
    )


def prompt_logprobs(
    choice: Mapping[str, Any], tokens: Sequence[int]
) -> tuple[list[float], list[bool]]:
    """Return the log-probabilities of the last tokens of a prompt, and True for each that no token exceeds.

    Args:
        choice: Choice of a response, with `prompt_logprobs`: for each token a mapping of ids to log-probabilities.
        tokens: The tokens.

    Raises:
        SettingsError: If the server gave none.
    """
    places = choice.get("prompt_logprobs")
    found = places[-len(tokens) :] if isinstance(places, list) else []
    try:
        ranked = [
            {int(token): float(entry["logprob"]) for token, entry in place.items()}
            for place in found
        ]
        logprobs = [place[token] for place, token in zip(ranked, tokens, strict=True)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SettingsError(f"{_CANNOT}. It gave no log-probabilities of the prompt.") from error
    pairs = zip(logprobs, ranked, strict=True)
    return logprobs, [logprob >= max(place.values()) for logprob, place in pairs]


def _tokens_of(
    request: Request, server: Server, model: str, loop: asyncio.AbstractEventLoop
) -> tuple[list[int], list[int] | str]:
    """Return `answer_tokens` of a request by the server's tokenizer. Call it on another thread than that of the event loop."""

    def asked(path: str, field: str, **body: object) -> Any:  # noqa: ANN401 - tokens or text
        asking = server.post(path, {"model": model, **body})
        try:
            response = asyncio.run_coroutine_threadsafe(asking, loop).result()
        except SettingsError as error:
            raise SettingsError(f"{_CANNOT}: {error}") from error
        if field not in response:
            raise RefusedError(None, f"The server's response to `{path}` has no '{field}'.")
        return response[field]

    def encode(texts: Sequence[str], *, special: bool = True) -> list[list[int]]:
        return [asked("/tokenize", "tokens", prompt=t, add_special_tokens=special) for t in texts]

    prompt, stored = request.prompt, request.stored
    if stored is None or not isinstance(prompt, str):
        raise TypeError("there is no stored answer to a text")
    return answer_tokens(
        prompt,
        asdict(stored),
        encode=encode,
        encode_alone=partial(encode, special=False),
        decode=lambda tokens: str(asked("/detokenize", "prompt", tokens=tokens)),
    )
