"""Samples from parsed rows: ids derived from the content, and a limit spread evenly over the split."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import orjson

from regrade.records import Sample
from regrade.records.images import Image
from regrade.settings.errors import SettingsError
from regrade.settings.turn_ids import Turn, turn_of

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Question:
    """Validated row of a source, without an id yet."""

    content: str | Mapping[str, Any]
    """Part of the row that enters the id: only JSON values, dates and times."""
    target: str
    fields: Mapping[str, Any]
    subset: str = ""
    choices: tuple[str, ...] = ()
    doc: Mapping[str, Any] | None = None
    """As `Sample.doc`; not part of the id."""
    images: tuple[Image, ...] = ()
    """As `Sample.images`; in the id as their marks in `content`."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """As `Sample.tools`; part of the id if there are any."""


def number_samples(
    questions: Iterable[Question], rows: Sequence[int] | None = None
) -> list[Sample]:
    """Return a sample for each question of a whole split, in order.

    Args:
        questions: Questions of the split.
        rows: Row of each question in the source, from 0, if some rows are left out.

    The id is the first 16 hex digits of the sha256 of question, choices, target and subset as canonical JSON.
    Repeated questions get `-2`, `-3` and so on appended, in order, so that every id is unique.
    """
    samples = []
    seen: Counter[str] = Counter()
    for position, question in enumerate(questions):
        digest = _digest(question)
        seen[digest] += 1
        occurrence = seen[digest]
        samples.append(
            Sample(
                id=digest if occurrence == 1 else f"{digest}-{occurrence}",
                index=position if rows is None else rows[position],
                target=question.target,
                fields=question.fields,
                subset=question.subset,
                choices=question.choices,
                question=_only_text(question.content),
                doc=question.doc,
                images=question.images,
                tools=question.tools,
            )
        )
    return samples


@dataclass(frozen=True, slots=True)
class UserTurn:
    """A turn of the user in a conversation, which the model answers before the next one."""

    text: str
    target: str = ""
    doc: Mapping[str, Any] | str | None = None


def by_turn(sample: Sample, turns: Sequence[UserTurn]) -> list[Sample]:
    """Return a sample for each turn of a conversation, with the number of the turn as its subset, or as part of it."""
    samples: list[Sample] = []
    for number, turn in enumerate(turns, 1):
        samples.append(
            replace(
                sample,
                id=Turn(sample.id, number, len(turns)).id,
                question=turn.text,
                target=turn.target,
                doc=turn.doc,
                subset=", ".join(filter(None, (sample.subset, f"turn {number}"))),
                previous=samples[-1] if samples else None,
            )
        )
    return samples


def groups_by_turn(samples: Iterable[Sample]) -> dict[str, tuple[str, ...]]:
    """Return the subsets of each turn, and of each subset that has turns; empty if the samples are no conversations."""
    turns: dict[str, dict[str, None]] = {}
    subsets: dict[str, dict[str, None]] = {}
    for sample in samples:
        if turn_of(sample.id) is not None:
            subset, _, turn = sample.subset.rpartition(", ")
            turns.setdefault(turn, {})[sample.subset] = None
            subsets.setdefault(subset, {})[sample.subset] = None
    if set(subsets) <= {""}:
        return {}
    return {name: tuple(members) for name, members in (*turns.items(), *subsets.items())}


def _only_text(content: str | Mapping[str, Any]) -> str | None:
    """Return the text of a question made of a single text, or None."""
    values = [content] if isinstance(content, str) else list(content.values())
    return values[0] if len(values) == 1 and isinstance(values[0], str) else None


def spread(items: Sequence[_T], limit: int | None) -> list[_T]:
    """Return `limit` items spread evenly (indices `floor(i * total / limit)`), or all if there are fewer."""
    total = len(items)
    if limit is None or limit >= total:
        return list(items)
    return [items[i * total // limit] for i in range(limit)]


def check_limit(limit: int | None) -> None:
    """Refuse a limit below 1.

    Raises:
        SettingsError: If the limit is 0 or negative.
    """
    if limit is not None and limit < 1:
        raise SettingsError(
            f"limit is {limit}, expected 1 or more. Leave it out to use all questions."
        )


def _digest(question: Question) -> str:
    canonical = orjson.dumps(
        {
            "question": question.content,
            "choices": question.choices,
            "target": question.target,
            "subset": question.subset,
            **({"tools": question.tools} if question.tools else {}),
        },
        option=orjson.OPT_SORT_KEYS,
    )
    return hashlib.sha256(canonical).hexdigest()[:16]
