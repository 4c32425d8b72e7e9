"""Results that may be exported: those of a scoring that is not stale."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from regrade.answers.result import Result
from regrade.answers.sets import AnswerSet
from regrade.judging.labels.calibrate import calibrate
from regrade.records.images import Image
from regrade.records.messages import PartedMessage, answer_message, prompt_messages
from regrade.records.trajectory import read_trajectory
from regrade.scoring.score import is_stale
from regrade.settings.errors import SettingsError


def by_labels(scored: Result) -> str | None:
    """Return the figure that people's labels correct, or `uncalibrated`; None without a judge and labels."""
    found = calibrate(scored)
    return None if found is None else found.text


def asked_text(row: Mapping[str, Any]) -> str | None:
    """Return a row's question, or its prompt if the question is not stored; None without both."""
    text: str | None = row["prompt"] if row["question"] is None else row["question"]
    return text


def token_usage(row: Mapping[str, Any]) -> dict[str, int] | None:
    """Return the tokens of a row; None if they are not known."""
    asked, answered = row["prompt_tokens"], row["completion_tokens"]
    if asked is None or answered is None:
        return None
    return {"input_tokens": asked, "output_tokens": answered, "total_tokens": asked + answered}


class ShownImages:
    """Images of an answer set that may be copied, each read once."""

    def __init__(self, answers: AnswerSet) -> None:
        self._answers, self._images = answers, answers.images

    def read(self, sha256: str, number: int) -> Image | str:
        """Return an image, or what is said in its place if it is not stored, as where the licence forbids a copy.

        Args:
            sha256: The image.
            number: Number of its question.

        Raises:
            DamagedAnswersError: If it is damaged.
        """
        if sha256 not in self._images:
            return self._answers.absent_image(sha256, number)
        return self._images.read(sha256)


def asked_messages(row: Mapping[str, Any]) -> list[PartedMessage]:
    """Return the messages of a row's prompt, none if it is not stored; a prompt as text is one message without a role."""
    if row["prompt"] is None:
        return []
    return prompt_messages(row["prompt"], row["prompt_kind"], "completion", row["images"])


def made_messages(row: Mapping[str, Any]) -> list[PartedMessage]:
    """Return the messages after a row's prompt: what an agent did, else the answer."""
    did = read_trajectory(row["trajectory"])
    return [answer_message(row)] if did is None else [*did]


def results_apart(message: PartedMessage) -> Iterator[PartedMessage]:
    """Yield a message without its results of tools, unless it has nothing else, and a message `tool` for each of them."""
    rest = tuple(part for part in message.parts if part.kind != "tool_result")
    if rest or not message.parts:
        yield replace(message, parts=rest)
    for part in message.parts:
        if part.kind == "tool_result":
            yield PartedMessage("tool", (part,))


def fresh_result(answers: AnswerSet, scorer: str | None = None) -> Result:
    """Return an answer set with a scoring that is not stale.

    Args:
        answers: Answer set.
        scorer: Scorer. None: the one that gives the headline number.

    Raises:
        SettingsError: If there is no such scoring.
    """
    names = answers.manifest.scorers
    files = [file for file in answers.scores() if not is_stale(file, answers)]
    fitting = [
        file
        for file in files
        if (file.is_headline(names) if scorer is None else file.scorer == scorer)
    ]
    if fitting:
        return Result(answers, max(fitting, key=lambda file: file.scored_at))
    by = "its first scorer" if scorer is None else f"'{scorer}'"
    option = "" if scorer is None else f" --scorer {scorer}"
    raise SettingsError(
        f"Answer set '{answers.manifest.answer_set_id}' has no up-to-date scoring by {by}: {answers.manifest.to_score(option)}."
    )
