"""Choices that lm-evaluation-harness ranked by log-probability, and the right one."""

from ast import literal_eval
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regrade.importing.record import Json, Record, as_json, clean

_MAX_LIST = 10_000
"""Longest text that is read as a list, in characters."""


@dataclass(frozen=True, slots=True)
class Request:
    """Log-probability of a continuation after a context."""

    context: str
    continuation: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """Ranked choices of a question."""

    context: str
    """Context of all choices; if they have different ones, their common beginning up to a white space."""
    same_context: bool
    choices: tuple[str, ...]
    """Continuations; with different contexts the rest of each context and the continuation."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each continuation after its context."""
    target: str | int | None
    """Index, letter or text of the right choice; None if there is no single one or it is not recorded."""


def read_ranked(record: Record, responses: Sequence[Any]) -> Ranked:
    """Read the choices of a row, whose `resps` is `[[[logprob, greedy]], ...]`.

    Raises:
        ImportFileError: If a log-probability is not a number.
    """
    requests = _conditional(
        [_request(record, number, response) for number, response in enumerate(responses)]
    )
    contexts = [request.context for request in requests]
    same = len(set(contexts)) == 1
    context = contexts[0] if same else _common_beginning(contexts)
    choices = tuple(
        (request.context[len(context) :] + request.continuation).strip() for request in requests
    )
    # With different contexts `target` is the continuation. A single continuation, as of lambada, is no choice.
    has_target = same and len(requests) > 1
    target = _position(record.get("target"), len(requests)) if has_target else None
    return Ranked(context, same, choices, tuple(request.logprob for request in requests), target)


def only_target(target: Json) -> str | int | None:
    """Return the only right answer; None if there are several. The harness writes lists as Python text."""
    if isinstance(target, str) and target.startswith("[") and len(target) <= _MAX_LIST:
        try:
            target = literal_eval(target)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return clean(str(target))
    if isinstance(target, list):
        target = target[0] if len(target) == 1 else None
    if target is None or (isinstance(target, int) and not isinstance(target, bool)):
        return target
    return clean(target) if isinstance(target, str) else as_json(target)


def _position(target: Json, n_choices: int) -> str | int | None:
    """Return the index of the right choice, or its text if the harness recorded a text."""
    found = only_target(target)
    if isinstance(found, str) and not found.isdecimal():
        return found
    return int(found) if found is not None and 0 <= int(found) < n_choices else None


def _request(record: Record, number: int, response: Json) -> Request:
    try:
        logprob = float(response[0][0])
    except (TypeError, ValueError, IndexError, KeyError):
        raise record.error(
            f"'resps' should hold log-probabilities, found {response!r:.60}."
        ) from None
    context = record.get(f"arguments.gen_args_{number}.arg_0")
    continuation = record.text(f"arguments.gen_args_{number}.arg_1") or ""
    if not isinstance(context, str):
        context = "" if context is None else as_json(context)
    return Request(clean(context), continuation, logprob)


def _conditional(requests: Sequence[Request]) -> Sequence[Request]:
    """Return the requests without those for mutual information: the same continuations after an empty context."""
    after = [request for request in requests if request.context]
    alone = [request for request in requests if not request.context]
    texts, again = ([request.continuation.strip() for request in part] for part in (after, alone))
    return after if texts == again else requests


def _common_beginning(contexts: Sequence[str]) -> str:
    together = zip(*contexts, strict=False)
    differing = (place for place, characters in enumerate(together) if len(set(characters)) > 1)
    shared = contexts[0][: next(differing, min(map(len, contexts)))]
    return shared[: max(shared.rfind(space) for space in (" ", "\n", "\t")) + 1]
