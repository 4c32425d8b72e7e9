"""Stored answers as a judge gets them: without their reasoning, with question and reference."""

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import orjson

from regrade.answers.base import Repository
from regrade.answers.sets import AnswerSet, intact_sets
from regrade.answers.withheld import REPOSITORY
from regrade.records import MESSAGES
from regrade.records.columns import TRAJECTORY
from regrade.records.messages import message_of, prompt_messages, with_short_marks
from regrade.records.rubrics.facts import JudgedSet, JudgeRun, judge_run
from regrade.records.specification import path_component
from regrade.records.trajectory import plain_message, plain_trajectory, read_trajectory
from regrade.scorers.base import SHARED_COLUMNS, answer_part
from regrade.scoring.batches import with_prompts
from regrade.settings import JUDGE_PREFIX
from regrade.settings.errors import SettingsError
from regrade.settings.turn_ids import turn_of

logger = logging.getLogger("regrade.judge")

_COLUMNS = (
    *SHARED_COLUMNS,
    "index",
    "question",
    "prompt",
    "prompt_kind",
    "target",
    "choices",
    "doc",
    "images",
    "text",
    "label_logprobs",
    TRAJECTORY,
)
LONGEST_TRAJECTORY = 32_000
"""Most characters of what an agent did that a judge sees; the middle of long calls and results is left out first."""


_TURN = ("role", "content")
NO_ANSWER = "There is no answer"
NO_BASELINE = "The baseline has no such answer."
NOTHING_TO_JUDGE = (NO_ANSWER, NO_BASELINE)
"""Beginnings of the errors of a judge run's rows for which no judge could be asked."""


@dataclass(frozen=True, slots=True)
class EarlierTurn:
    """A turn of a conversation, with the model's own answer."""

    question: str
    answer: str
    reference: str | None


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """A stored answer."""

    sample_id: str
    repeat: int
    index: int
    subset: str
    question: str
    """Text of the question; of a conversation all turns before the answer."""
    reference: str | None
    """Right answer; None if it is not known, or no text."""
    answer: str
    """Text of the answer without its reasoning; "" if the reasoning never ended, or there is no answer."""
    error: str | None = None
    """Reason why there is no answer; None if there is one."""
    doc: Mapping[str, Any] | None = None
    """Parts of the question beside its text."""
    conversation: str = ""
    """All turns before the answer, each as `role: text`."""
    turns: tuple[EarlierTurn, ...] = ()
    """Turns before the last one, if the model answered them."""
    last_question: str = ""
    """The user's last turn; "" if that is the whole question."""
    trajectory: str = ""
    """Actions of an agent after the prompt, in the same form; "" of other answers."""


def stored_answers(
    answers: AnswerSet, repeats: int | None = None
) -> dict[tuple[str, int], JudgedAnswer]:
    """Return the answers of a set by sample id and repeat, in the order in which they are stored.

    Args:
        answers: The answer set.
        repeats: Answers to each question. None: all.

    Raises:
        SettingsError: If they are no texts, or their questions are withheld and not at hand.
        DamagedAnswersError: If they do not match their manifest.
    """
    manifest = answers.manifest
    name = f"Answer set '{manifest.answer_set_id}' ({manifest.specification.title})"
    if manifest.specification.method == "rank":
        raise SettingsError(
            f"{name} holds log-probabilities of choices and no texts, which a judge cannot grade."
        )
    if manifest.withheld and (lacking := answers.questions.lacks(manifest.n_samples)):
        raise SettingsError(
            f"{name} is published without its questions, which the judge reads. {lacking:,} of {manifest.n_samples:,} are "
            f"missing in '{answers.questions.path}'. Copy that file from the machine that generated the answers, set "
            f"{REPOSITORY} to the private repository that has them, or run the same `regrade generate` here."
        )
    found = {}
    for batch in with_prompts(answers.batches(_COLUMNS), answers):
        texts = answer_part(batch).text.to_pylist()
        for row, text in zip(batch.to_pylist(), texts, strict=True):
            if repeats is None or row["repeat"] < repeats:
                found[row["sample_id"], row["repeat"]] = _answer(row, text)
    return {key: _in_conversation(answer, found) for key, answer in found.items()}


def json_in(text: str | None) -> object:
    """Return the content of JSON in a row, which may be a stranger's; None if it is none."""
    with suppress(orjson.JSONDecodeError):
        return None if text is None else orjson.loads(text)
    return None


def _in_conversation(
    answer: JudgedAnswer, answers: Mapping[tuple[str, int], JudgedAnswer]
) -> JudgedAnswer:
    """Return an answer with the turns before it, if it is a later turn of a conversation."""
    turn = turn_of(answer.sample_id)
    keys = [(known.id, answer.repeat) for known in (turn.earlier if turn else ())]
    turns = tuple(
        EarlierTurn(known.question, known.answer, known.reference)
        for known in map(answers.get, keys)
        if known is not None
    )
    if not turns:
        return answer
    said = [
        text for turn in turns for text in (f"user: {turn.question}", f"assistant: {turn.answer}")
    ]
    whole = "\n\n".join((*said, f"user: {answer.question}"))
    return replace(
        answer, question=whole, conversation=whole, turns=turns, last_question=answer.question
    )


def _answer(row: Mapping[str, Any], text: str | None) -> JudgedAnswer:
    doc = json_in(row["doc"])
    doc = doc if isinstance(doc, dict) else None
    conversation = _conversation(row, doc)
    is_whole = any(turn["role"] == "assistant" for turn in messages_of(doc))
    did = read_trajectory(row[TRAJECTORY]) or ()
    return JudgedAnswer(
        sample_id=row["sample_id"],
        repeat=row["repeat"],
        index=row["index"],
        subset=row["subset"],
        question=conversation if is_whole else _question(row),
        reference=_reference(row),
        answer=(text or "").strip(),
        error=None if row["error"] is None else f"{NO_ANSWER} to judge: {row['error']}",
        doc=doc,
        conversation=conversation,
        trajectory=plain_trajectory(did, LONGEST_TRAJECTORY),
    )


def _question(row: Mapping[str, Any]) -> str:
    """Return the question; of answers that were stored without it the prompt, of a chat the user's messages.

    All choices follow if one of them is not in the text.
    """
    if row["question"] is not None:
        text = with_short_marks(row["question"], row["images"] or ())
    elif row["prompt_kind"] == "messages" and row["prompt"]:
        messages = prompt_messages(row["prompt"], "messages", None, row["images"])
        text = "\n\n".join(plain_message(m) for m in messages if m.role in ("user", ""))
    else:
        text = with_short_marks(row["prompt"] or "", row["images"] or ())
    choices = [choice or "" for choice in row["choices"]]
    if all(choice in text for choice in choices):
        choices = []
    listed = (f"{chr(ord('A') + number)}. {choice}" for number, choice in enumerate(choices))
    return "\n".join(filter(None, (text.strip(), *listed)))


def messages_of(doc: Mapping[str, Any] | None) -> list[Mapping[str, str]]:
    """Return the turns of a conversation that `doc` keeps; [] if it keeps none."""
    found = None if doc is None else doc.get(MESSAGES)
    turns = found if isinstance(found, list) else []
    known = [isinstance(t, dict) and {*map(type, map(t.get, _TURN))} == {str} for t in turns]
    return turns if all(known) else []


def _conversation(row: Mapping[str, Any], doc: Mapping[str, Any] | None) -> str:
    """Return all turns before the answer; a prompt that vLLM rendered does not tell them apart, so that `doc` has them."""
    messages = [message for turn in messages_of(doc) if (message := message_of(turn)) is not None]
    if not messages and row["prompt_kind"] == "messages" and row["prompt"]:
        messages = prompt_messages(row["prompt"], "messages", None, row["images"])
    if not messages or not messages[0].role:
        return f"user: {_question(row)}"
    return "\n\n".join(f"{message.role}: {plain_message(message)}" for message in messages)


def _reference(row: Mapping[str, Any]) -> str | None:
    """Return the target; of a letter also the text of its choice."""
    target, choices = row["target"], row["choices"]
    if not target:
        return None
    place = ord(target) - ord("A") if len(target) == 1 else -1
    if 0 <= place < len(choices):
        return f"{target}. {choices[place]}"
    return str(target)


def judged_set(answers: AnswerSet, repeats: int) -> JudgedSet:
    """Return the identity of judged answers.

    Args:
        answers: The answer set.
        repeats: Answers to each question that are judged.
    """
    manifest = answers.manifest
    specification = manifest.specification
    return JudgedSet(
        answer_set_id=manifest.answer_set_id,
        benchmark=specification.benchmark.name,
        model=specification.model.name,
        model_revision=specification.model.revision,
        identity=specification.model,
        engine=specification.engine,
        repeats=repeats,
        shards=digest(answers.hashes),
    )


def judge_runs(
    repository: Repository, revision: str, where: Callable[[str], bool] = bool
) -> Iterator[tuple[AnswerSet, JudgeRun]]:
    """Yield the judge runs that can be read with their facts, oldest first; the log names the others.

    Args:
        repository: Repository to read from.
        revision: 40-digit revision.
        where: Chooses runs by their `Specification.folder`. Default: all.
    """
    of_judges = path_component(JUDGE_PREFIX)
    for answers in intact_sets(
        repository, revision, where=lambda folder: folder.startswith(of_judges) and where(folder)
    ):
        if (run := known_run(answers)) is not None:
            yield answers, run


def known_run(answers: AnswerSet) -> JudgeRun | None:
    """Return the facts of a judge run; None for other answers, and for facts of a newer version, which the log tells."""
    try:
        return judge_run(answers.manifest.specification)
    except SettingsError as error:
        logger.warning("a judge run is left out: %s", error)
        return None


def answer_set_at(repository: Repository, revision: str, answer_set_id: str) -> AnswerSet | None:
    """Return the answer set with an id; None if there is none, or its manifest cannot be read, which the log tells."""
    ends = f"/{answer_set_id}"
    sets = intact_sets(repository, revision, where=lambda folder: folder.endswith(ends))
    return sets[0] if sets else None


def is_unchanged(answers: AnswerSet, judged: JudgedSet) -> bool:
    """Return True if an answer set has the shards that were judged, and no others."""
    return judged_set(answers, judged.repeats).shards == judged.shards


def digest(texts: Sequence[str]) -> str:
    """Return the sha256 over texts in any order."""
    return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()
