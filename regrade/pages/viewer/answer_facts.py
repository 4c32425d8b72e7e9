"""Choices of one answer, and what is known of its generation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Letter:
    """A choice, with its log-probability if it was ranked."""

    letter: str
    choice: str
    logprob: float | None
    share: float | None
    """Probability among the choices, in [0, 1]."""
    is_greedy: bool
    """The model would have written it by itself."""
    is_target: bool
    is_read: bool


def with_choice(read: str, choices: Sequence[str] | None) -> str:
    """Return the letter of a choice with the choice's text, `B: Paris`; any other text as it is."""
    place = ord(read) - ord("A") if len(read) == 1 else -1
    return f"{read}: {choices[place]}" if choices and 0 <= place < len(choices) else read


def letter_of(place: int) -> str:
    """Return the letter of a choice by its place, from 0; beyond `Z` its number."""
    return chr(ord("A") + place) if place < 26 else str(place + 1)


def letters_of(texts: dict[str, Any], extracted: str | None) -> tuple[Letter, ...]:
    """Return the choices by letter, with their probabilities if they were ranked."""
    choices = texts["choices"] or texts["continuations"] or []
    greedy = texts["label_is_greedy"] or []
    logprobs = texts["label_logprobs"] or []
    shares: list[float | None] = [None] * len(logprobs)
    if logprobs and max(logprobs) > -math.inf:
        weights = [math.exp(value - max(logprobs)) for value in logprobs]
        shares = [weight / sum(weights) for weight in weights]
    letters = []
    for place in range(max(len(choices), len(logprobs))):
        name = letter_of(place)
        letters.append(
            Letter(
                letter=name,
                choice=choices[place] if place < len(choices) else "",
                logprob=logprobs[place] if place < len(logprobs) else None,
                share=shares[place] if place < len(shares) else None,
                is_greedy=bool(greedy[place]) if place < len(greedy) else False,
                is_target=texts["target"] == name,
                is_read=extracted == name,
            )
        )
    return tuple(letters)


def facts_of(texts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return names and values of what is known of the generation."""
    facts = [
        ("finished", texts["finish_reason"]),
        ("prompt tokens", _count(texts["prompt_tokens"])),
        ("completion tokens", _count(texts["completion_tokens"])),
        ("seconds", _seconds(texts["latency"])),
        ("seconds to first token", _seconds(texts["time_to_first_token"])),
        ("letters ranked", (texts["label_method"] or "").replace("_", " ")),
        ("prompt", "cut to fit the context" if texts["prompt_truncated"] else ""),
        ("request", "refused for good" if texts["error_permanent"] else ""),
    ]
    return [(name, value) for name, value in facts if value]


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"
