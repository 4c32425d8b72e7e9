"""The page of one answer: question, prompt, thought, answer, all scorings, repeats, and other models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from regrade.answers.scorefile import ScoreFile
from regrade.pages.viewer.answer_facts import Letter, facts_of, letters_of
from regrade.pages.viewer.answer_list import selected
from regrade.pages.viewer.answer_relatives import (
    ScoringRow,
    Sibling,
    other_models,
    repeats_of,
    scoring_rows,
)
from regrade.pages.viewer.answer_texts import (
    HtmlText,
    ShownMessage,
    TextMaker,
    asked_of,
    conversation_of,
    html_of,
    indented,
    thought_and_answer,
)
from regrade.pages.viewer.filters import PAGE_ROWS, AnswerFilters
from regrade.pages.viewer.index import Rows
from regrade.pages.viewer.judged import Grading, People, PersonLabel, gradings_of
from regrade.pages.viewer.library import Library, NotFoundError, StoredSet
from regrade.pages.viewer.links import Links, Visit
from regrade.pages.viewer.verdicts import VERDICTS
from regrade.records.columns import GENERATION_SCHEMA, TRAJECTORY
from regrade.records.messages import prompt_messages
from regrade.settings.errors import DamagedAnswersError
from regrade.text.hidden import as_html


@dataclass(frozen=True, slots=True)
class Spot:
    """The place of a page in the list that it was opened from."""

    position: int | None
    """Number in the list, from 1; None if the filters leave it out."""
    previous: str | None
    next: str | None
    page: int
    """Page of the list that shows it; else the first."""


@dataclass(frozen=True, slots=True)
class OneAnswer:
    """The page."""

    stored: StoredSet
    scoring: ScoreFile | None
    filters: AnswerFilters
    sample_id: str
    number: int
    repeat: int
    subset: str
    verdict: str
    truncated: bool
    question: HtmlText | None
    doc: HtmlText | None
    """Parts of the question that the scorer needs, as JSON."""
    turns: tuple[ShownMessage, ...]
    thought: HtmlText | None
    thought_open: bool
    answer: HtmlText | None
    calls: HtmlText | None
    """Calls of tools, as JSON."""
    conversation: tuple[ShownMessage, ...]
    """Actions of an agent after its prompt."""
    more_messages: int
    """Messages of it that are not shown."""
    no_conversation: HtmlText | None
    """Text in the place of a trajectory that is none."""
    error: HtmlText | None
    extracted: Markup | None
    is_marked: bool
    """The answer as it is shown has the part that was read, marked."""
    target: Markup | None
    letters: tuple[Letter, ...]
    facts: tuple[tuple[str, str], ...]
    scorings: tuple[ScoringRow, ...]
    repeats: tuple[Sibling, ...]
    models: tuple[Sibling, ...]
    gradings: tuple[Grading, ...]
    """The verdict of each judge on the answer; of a verdict, the judged answers."""
    labels: tuple[PersonLabel, ...]
    """Labels that people gave to the answer."""
    labels_problem: str
    """Reason why they cannot be read; "" if they can."""
    unread: int
    """Other sets of the benchmark that are not read unless asked for."""
    spot: Spot
    matching: int
    back: str
    all_texts: str
    all_models: str
    toggled_format: str


def one_answer(
    visit: Visit,
    people: People,
    sample_id: str,
    repeat: int,
    *,
    full: bool = False,
    every_model: bool = False,
) -> OneAnswer:
    """Return the page.

    Args:
        visit: Answer set, and filters of the list in which the answer is shown.
        people: Labels that people gave.
        sample_id: Question.
        repeat: Number of the answer to it.
        full: Show texts longer than `SHOWN_CHARACTERS` whole.
        every_model: Read all other sets of the benchmark.

    Raises:
        NotFoundError: If the set has no such answer.
        DamagedAnswersError: If answers or scores are damaged.
    """
    library, stored, filters = visit.library, visit.stored, visit.filters
    index, selection = selected(visit)
    row = index.row_of(sample_id, repeat)
    if row is None:
        raise NotFoundError(
            f"Answer set '{stored.id}' has no answer {repeat} to question '{sample_id}'."
        )
    [texts] = library.readers.take(stored.answers, [row], GENERATION_SCHEMA.names).to_pylist()
    makers = TextMaker(filters.format, full)
    pictures = pictures_of(library, stored, texts, visit.links)
    thought, answer, mark, is_open = thought_and_answer(
        texts, (int(index.start[row]), int(index.end[row])), verdict=stored.run is not None
    )
    shown = None if answer is None else makers.answer(answer, mark)
    spot = spot_in(
        selection.rows,
        row,
        lambda other: visit.answer(str(index.sample_id[other].as_py()), int(index.repeat[other])),
    )
    siblings, unread = other_models(visit, index.scoring, sample_id, every_model)
    conversation, more_messages, no_conversation = conversation_of(texts[TRAJECTORY], makers)
    prompt_format = stored.answers.manifest.specification.prompt.format
    prompt, kind = texts["prompt"] or "", texts["prompt_kind"]
    asked = prompt_messages(prompt, kind, prompt_format, texts["images"])

    labels: tuple[PersonLabel, ...] = ()
    labels_problem = ""
    try:
        labels = people.of(visit.shelf, stored, sample_id, repeat)
    except DamagedAnswersError as error:  # the answer can be read without them
        labels_problem = str(error)

    return OneAnswer(
        stored=stored,
        scoring=index.scoring,
        filters=filters,
        sample_id=sample_id,
        number=int(index.index[row]),
        repeat=repeat,
        subset=index.subsets[index.subset[row]],
        verdict=VERDICTS[index.verdict[row]],
        truncated=bool(index.truncated[row]),
        question=None if texts["question"] is None else makers.plain(texts["question"], pictures),
        doc=None if texts["doc"] is None else makers.sent(indented(texts["doc"])),
        turns=tuple(asked_of(asked, makers, pictures)),
        thought=None if thought is None else makers.plain(thought),
        thought_open=is_open,
        answer=shown,
        calls=None if texts["tool_calls"] is None else makers.sent(indented(texts["tool_calls"])),
        conversation=conversation,
        more_messages=more_messages,
        no_conversation=no_conversation,
        error=None if texts["error"] is None else makers.plain(texts["error"]),
        extracted=html_of(index.extracted[row].as_py()),
        is_marked=shown is not None and 'id="read"' in shown.html,
        target=html_of(texts["target"]),
        letters=letters_of(texts, index.extracted[row].as_py()),
        facts=tuple(facts_of(texts)),
        scorings=tuple(scoring_rows(visit, sample_id, repeat, index)),
        repeats=tuple(repeats_of(visit, index, row)),
        models=siblings,
        gradings=gradings_of(visit, sample_id, repeat),
        labels=labels,
        labels_problem=labels_problem,
        unread=unread,
        spot=spot,
        matching=len(selection.rows),
        back=visit.answers(page=spot.page),
        all_texts=visit.answer(sample_id, repeat, "full=yes"),
        all_models=visit.answer(sample_id, repeat, "models=all"),
        toggled_format=visit.answer(
            sample_id, repeat, format="plain" if filters.format == "markdown" else "markdown"
        ),
    )


def pictures_of(
    library: Library, stored: StoredSet, texts: Mapping[str, Any], links: Links
) -> dict[str, Markup]:
    """Return what stands for each image of a question, by sha256: the image, or words if it is not stored.

    Args:
        library: The repository.
        stored: Answer set.
        texts: Row with `images` and `index`.
        links: Makes the addresses.
    """
    answers, pictures = stored.answers, {}
    tag = Markup('<img src="{}" alt="image {}" loading="lazy">')
    for sha256 in texts["images"] or ():
        try:
            is_stored = sha256 in library.images(answers)
        except DamagedAnswersError as error:  # the texts can be read without them
            words = f"[image {sha256[:8]}: {error}]"
        else:
            if is_stored:
                address = links.image(stored.id, sha256, answers.revision)
                pictures[sha256] = tag.format(address, sha256[:8])
                continue
            words = answers.absent_image(sha256, texts["index"])
        pictures[sha256] = Markup('<span class="dim">{}</span>').format(as_html(words))
    return pictures


def spot_in(rows: Rows, row: int, href: Callable[[int], str]) -> Spot:
    """Return the place of a row in a list; `href` makes the address of another row's page."""
    (found,) = np.nonzero(rows == row)
    if not found.size:
        return Spot(None, None, None, 1)
    place = int(found[0])
    near = [
        href(int(rows[other])) if 0 <= other < len(rows) else None
        for other in (place - 1, place + 1)
    ]
    return Spot(place + 1, near[0], near[1], place // PAGE_ROWS + 1)
