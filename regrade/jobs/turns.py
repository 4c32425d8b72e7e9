"""Turns of conversations: each is asked after the answer before it, which its prompt holds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regrade.answers.rows import RowKey
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from regrade.records import Message, Sample
from regrade.settings.turn_ids import turn_of

NOT_ASKED = "Not asked, because of the turn before it: "
_COLUMNS = (
    *("sample_id", "repeat", "text", "reasoning_open", "finish_reason"),
    *("error", "error_permanent"),
)


@dataclass(frozen=True, slots=True)
class Before:
    """Answers of the turns before one, or the reason why it cannot be asked."""

    answers: tuple[str, ...] = ()
    error: str | None = None
    permanent: bool = False
    """Asking the conversation again cannot help."""

    def after(self, row: Mapping[str, Any]) -> "Before":
        """Return what the next turn has before it, once this one has a row with the columns of an answer.

        Nothing is made up: after an answer that failed, was cut off or never ended its reasoning, the conversation ends.
        """
        if (error := row["error"]) is not None:
            reason = error if error.startswith(NOT_ASKED) else f"{NOT_ASKED}{error}"
            return Before(error=reason, permanent=bool(row["error_permanent"]))
        text = said(row["text"], reasoning_open=bool(row["reasoning_open"]))
        if text is None:
            return Before(error=f"{NOT_ASKED}its reasoning never ended.", permanent=True)
        if row["finish_reason"] == "length":
            return Before(error=f"{NOT_ASKED}its answer was cut off.", permanent=True)
        return Before((*self.answers, text))


def said(text: str | None, *, reasoning_open: bool) -> str | None:
    """Return an answer as the next turn's prompt holds it: exactly, without its reasoning, as chat templates leave that out.

    None: there is no answer, or its reasoning never ended.
    """
    if text is None or (reasoning_open and "</think>" not in text):
        return None
    _, closed, answer = text.rpartition("</think>")
    answer = answer.lstrip("\n") if closed else text
    return None if "<think>" in answer else answer


def conversation(
    first: Sequence[Message], answers: Sequence[str], users: Iterable[Sequence[Message]]
) -> tuple[Message, ...]:
    """Return the prompt of a turn.

    Args:
        first: Prompt of the first turn.
        answers: Answers so far.
        users: What follows each of them.
    """
    messages = [*first]
    for answer, user in zip(answers, users, strict=True):
        messages += [{"role": "assistant", "content": answer}, *user]
    return tuple(messages)


def turns_until(sample: Sample) -> list[Sample]:
    """Return the turns of a conversation up to one, in order."""
    turns = [sample]
    while (previous := turns[-1].previous) is not None:
        turns.append(previous)
    return turns[::-1]


def stored_before(
    missing: Sequence[tuple[Sample, int]], stored: AnswerSet | None, spool: Spool
) -> dict[RowKey, Before]:
    """Return what missing turns have before them, if the turn before is not missing itself.

    Args:
        missing: Pairs of sample and repeat.
        stored: Published answers that are kept; they go before those in the spool.
        spool: The open spool.

    Raises:
        DamagedAnswersError: If a stored shard cannot be read.
    """
    absent = {(sample.id, repeat) for sample, repeat in missing}
    begun = [
        (sample, repeat)
        for sample, repeat in missing
        if sample.previous is not None and (sample.previous.id, repeat) not in absent
    ]
    wanted = {(turn.id, r) for sample, r in begun for turn in turns_until(sample)[:-1]}
    rows: dict[RowKey, Mapping[str, Any]] = {}
    if wanted:
        for batches in (spool.batches(_COLUMNS), *([stored.batches(_COLUMNS)] if stored else ())):
            for batch in batches:
                for row in batch.to_pylist():
                    if (key := (row["sample_id"], row["repeat"])) in wanted:
                        rows[key] = row
    found: dict[RowKey, Before] = {}
    for sample, repeat in begun:
        before = Before()
        for turn in turns_until(sample)[:-1]:
            before = before.after(rows[turn.id, repeat])
        found[sample.id, repeat] = before
    return found


def row_question(key: RowKey) -> RowKey:
    """Return the key of the whole conversation of a turn, or of the question itself."""
    turn = turn_of(key[0])
    return key if turn is None else (turn.question, key[1])
