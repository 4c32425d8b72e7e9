"""Answers to label: their texts, the labels that people may give, and the verdicts with which the labels are compared."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from regrade.answers.labelfile import DrawnSample
from regrade.answers.result import Result
from regrade.answers.scorefile import ORIGINAL
from regrade.answers.sets import AnswerSet
from regrade.judging.choosing import waits_for_judge
from regrade.judging.labels.items import Verdicts, verdicts_of
from regrade.judging.labels.sampling import Key, population_sha256, random_order
from regrade.judging.labels.scheme import BASELINE, CANDIDATE, TIE, expected, further_fields
from regrade.judging.labels.stored import StoredLabels, stored_labels
from regrade.judging.readings import judge_sets_of, judged_answers
from regrade.judging.stored import stored_answers
from regrade.scorers import JUDGE
from regrade.scoring.originals import first_scorer, original_result
from regrade.scoring.score import score_answers
from regrade.settings.errors import SettingsError
from regrade.settings.view_address import view_address

FIRST, SECOND = "first", "second"


@dataclass(frozen=True, slots=True)
class Item:
    """An answer that people label."""

    key: Key
    question: str | None
    target: str | None
    answer: str
    verdict: float | None
    """None: the judge gave none."""


@dataclass(frozen=True, slots=True)
class LabelTask:
    """Answers of an answer set, with a verdict or without, and the labels given so far."""

    verdicts: Verdicts
    scored: Result
    """The scoring that has the verdicts."""
    items: dict[Key, Item]
    """Answers with a text, in stored order; also those on which the judge gave no verdict."""
    labels: StoredLabels
    name: str = ""
    """Name of the field if the verdict has several, such as `accuracy`; "" if it has one."""

    @property
    def field(self) -> str | None:
        """Field of the verdict that is labelled; None for the first."""
        return self.verdicts.field

    @property
    def answers(self) -> AnswerSet:
        """The labelled answer set; of a judge run the judge's replies."""
        return self.verdicts.answers

    def sample(self, size: int, seed: int) -> list[Item]:
        """Return the first answers in the random order of a seed, all if there are fewer."""
        keys = list(self.items)
        return [self.items[keys[position]] for position in random_order(keys, seed)[:size]]

    def drawn(self, size: int, seed: int) -> DrawnSample:
        """Return the facts about a sample that are stored with its labels."""
        keys = list(self.items)
        return DrawnSample(
            seed=seed,
            size=min(size, len(keys)),
            population=len(keys),
            population_sha256=population_sha256(keys),
        )

    @property
    def offered(self) -> tuple[str, ...]:
        """Labels that people may give; empty if they give numbers.

        People do not know which answer of a pair is whose.
        """
        return (FIRST, SECOND, TIE) if self.pairs else tuple(self.verdicts.scheme.labels)

    @property
    def expected(self) -> str:
        """The labels in words."""
        scheme = self.verdicts.scheme
        return expected(self.offered, scheme.scale, {} if self.pairs else scheme.words)

    @property
    def pairs(self) -> bool:
        """People compare two answers."""
        run = self.verdicts.run
        return run is not None and run.rubric.kind == "pairwise"

    def read(self, key: Key, text: str) -> tuple[str, float]:
        """Return the stored form of a label, and its value.

        Raises:
            SettingsError: If it is none of the labels.
        """
        given = " ".join(text.split()).lower()
        if not self.pairs:
            return self.verdicts.scheme.read(given)
        if given not in self.offered:
            raise SettingsError(f"'{given[:80]}' is no label here: expected {self.expected}.")
        if given != TIE:
            given = CANDIDATE if (given == FIRST) == candidate_first(key) else BASELINE
        return self.verdicts.scheme.read(given)

    def address(self, key: Key) -> str | None:
        """Return the address of an answer in the viewer; None as in `view_address`, and for pairs, whose pages show which answer is whose."""
        if self.pairs:
            return None
        run = self.verdicts.run
        judged = self.answers.manifest.answer_set_id
        if run is not None and run.judged is not None:
            judged = run.judged.answer_set_id
        return view_address(self.answers.repository.uri, judged, sample_id=key[0], repeat=key[1])


def open_tasks(answers: AnswerSet, scorer: str | None = None) -> list[LabelTask]:
    """Return the answers to label, once for each field of their verdicts, which all have the same answers.

    Args:
        answers: Answer set; of a judge run, the judge's answer set.
        scorer: Scorer whose verdicts the labels are compared with. None: the first of the answer set.

    Raises:
        SettingsError: If the scorer cannot score these answers, or judges graded them, whose verdicts are labelled instead.
        DamagedAnswersError: If answers, scores or labels are damaged.
    """
    if waits_for_judge(answers) and scorer in (None, JUDGE):
        _point_to_verdicts(answers)
    chosen = scorer or first_scorer(answers)
    result = (
        original_result(answers) if chosen == ORIGINAL else score_answers(answers, chosen).read()
    )
    first = verdicts_of(result)
    items = {item.key: item for item in _items(first, _by_key(first))}
    further = further_fields(first.run, result.file.scorer)
    named = first.run.rubric.fields[0].name if first.run is not None and further else ""
    tasks = []
    for field in (None, *further):
        verdicts = first if field is None else verdicts_of(result, field)
        found = _by_key(verdicts)
        own = {key: replace(item, verdict=found[key]) for key, item in items.items()}
        labels = stored_labels(answers, verdicts.scheme.scale, field)
        tasks.append(LabelTask(verdicts, result, own, labels, field or named))
    return tasks


def _point_to_verdicts(answers: AnswerSet) -> None:
    runs = judge_sets_of(answers.repository, answers.revision, answers.manifest.answer_set_id)
    if not runs:
        return  # the scorer's error names the remedy
    found = (run.manifest for run in runs)
    named = ", ".join(f"'{m.answer_set_id}' ({m.specification.title})" for m in found)
    raise SettingsError(
        f"A judge grades the answers of '{answers.manifest.answer_set_id}', so that its verdicts are labelled. Name the answer set "
        f"of a judge run instead; labels count for all judges by the same rubric: {named}."
    )


def _by_key(verdicts: Verdicts) -> dict[Key, float | None]:
    given = dict(zip(verdicts.keys, verdicts.value.tolist(), strict=True))
    return {key: given.get(key) for key in verdicts.judged}


def candidate_first(key: Key) -> bool:
    """Return True if people see the candidate's answer of a pair first, by the hash of the key, so that no order is visible."""
    return hashlib.sha256(f"{key[0]} {key[1]}".encode()).digest()[0] % 2 == 0


def _items(verdicts: Verdicts, found: dict[Key, float | None]) -> Iterator[Item]:
    answers, run = verdicts.answers, verdicts.run
    judged = stored_answers(answers) if run is None else judged_answers(answers)
    pairs = run is not None and run.rubric.kind == "pairwise"
    other = judged_answers(answers, side="baseline") if pairs else {}
    for key, given in judged.items():
        if key not in found or given.error is not None:
            continue
        text = given.answer
        if pairs:
            if key not in other:
                continue
            texts = (text, other[key].answer)
            first, second = texts if candidate_first(key) else texts[::-1]
            text = f"First answer:\n{first}\n\nSecond answer:\n{second}"
        yield Item(key, given.question, given.reference, text, found[key])
