"""The page of one question in a comparison: both answers, with what was read or what differs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from markupsafe import Markup

from regrade.answers.result import Result
from regrade.comparing.models import Comparison
from regrade.pages.viewer.answer_texts import HtmlText, TextMaker, thought_and_answer
from regrade.pages.viewer.filters import KINDS, AnswerFilters, PairFilters
from regrade.pages.viewer.library import NotFoundError, StoredSet
from regrade.pages.viewer.links import PairVisit
from regrade.pages.viewer.one_answer import Spot, pictures_of, spot_in
from regrade.pages.viewer.pair_index import Pairing, extracted_line, place_read
from regrade.records.patterns import compiled
from regrade.text.hidden import as_html, highlighted, marked

# Difference of two texts, word by word, or line by line if they are long.

MAX_WORDS = 3000
"""Longest text compared word by word; comparing takes up to the square of it."""
MAX_LINES = 3000
_WORDS = compiled(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Difference:
    """Two texts as HTML, with what only one of them has highlighted."""

    base: Markup
    candidate: Markup
    same: float | None
    """Share of both texts that is the same, in [0, 1]; None if they are too long to compare."""


def difference(base: str, candidate: str) -> Difference:
    """Return the difference of two texts."""
    pieces = [_WORDS.findall(text) for text in (base, candidate)]
    if max(map(len, pieces)) > MAX_WORDS:
        pieces = [text.splitlines(keepends=True) for text in (base, candidate)]
        if max(map(len, pieces)) > MAX_LINES:
            return Difference(as_html(base), as_html(candidate), None)
    left, right = pieces
    # Frequent words are no anchors (autojunk), which also bounds the time for texts of one repeated word.
    matcher = SequenceMatcher(None, left, right)
    blocks = matcher.get_matching_blocks()
    ours = [(block.a, block.a + block.size) for block in blocks]
    theirs = [(block.b, block.b + block.size) for block in blocks]
    return Difference(
        highlighted(_parts(left, ours)), highlighted(_parts(right, theirs)), matcher.ratio()
    )


def _parts(pieces: Sequence[str], same: Sequence[tuple[int, int]]) -> list[tuple[bool, str]]:
    parts: list[tuple[bool, str]] = []
    at = 0
    for start, end in same:
        parts += [(True, "".join(pieces[at:start])), (False, "".join(pieces[start:end]))]
        at = end
    return [(changed, text) for changed, text in parts if text]


COLUMNS = (
    *("question", "prompt", "target", "text", "reasoning", "reasoning_open", "error", "repeat"),
    *("index",),
)


@dataclass(frozen=True, slots=True)
class PairSide:
    """One side's answer to a question."""

    stored: StoredSet
    value: float
    """Mean over the repeats."""
    extracted: Markup | None
    thought: HtmlText | None
    thought_open: bool
    text: str
    """The answer as the page has it: of a failed request its error, of a thought that never ends "" (empty)."""
    answer: HtmlText
    """The same as HTML."""
    href: str


@dataclass(frozen=True, slots=True)
class PairPage:
    """The page of one question in a comparison."""

    base: PairSide
    candidate: PairSide
    filters: PairFilters
    comparison: Comparison
    sample_id: str
    subset: str
    kind: str
    question: HtmlText
    target: Markup | None
    same: float | None
    spot: Spot
    matching: int
    back: str
    all_texts: str
    toggled_view: str


def pair_page(
    visit: PairVisit, pairing: Pairing, sample_id: str, *, full: bool = False
) -> PairPage:
    """Return the page of a question; errors as in `Pairing.of`. `full` shows long texts whole.

    Raises:
        NotFoundError: If the comparison has no such question.
    """
    library, base, filters = visit.library, visit.base, visit.filters
    found = pairing.of(base, visit.candidate, filters)
    fitting = np.flatnonzero(found.sample_id == sample_id)
    if not fitting.size:
        raise NotFoundError(
            f"Question '{sample_id}' is not compared: it has no value on both sides, or '{base.id}' has no such question."
        )
    place = int(fitting[0])
    rows = found.rows(filters)
    spot = spot_in(rows, place, lambda other: visit.question(str(found.sample_id[other])))
    pairs = found.compared.pairs
    at = int(np.flatnonzero(pairs.base_id == sample_id)[0])
    makers = TextMaker("plain", full)
    plain = AnswerFilters(at=filters.at)
    both = (
        (base, int(found.base_row[place]), pairs.base_id, pairs.base),
        (visit.candidate, int(found.candidate_row[place]), pairs.candidate_id, pairs.candidate),
    )
    sides, read = [], []
    for scored, (stored, row, ids, values) in zip(found.compared.sides, both, strict=True):
        read += library.readers.take(stored.answers, [row], COLUMNS).to_pylist()
        href = visit.links.answer(stored.id, str(ids[at]), read[-1]["repeat"], plain)
        sides.append(_side(makers, stored, scored, row, float(values[at]), read[-1], href))
    left = read[0]
    library.readers.add_images(base.answers, [both[0][1]], [left])
    same = None
    if filters.view == "difference":
        compared = difference(sides[0].text, sides[1].text)
        same = compared.same
        sides = [
            replace(side, answer=HtmlText(html, side.answer.cut))
            for side, html in zip(sides, (compared.base, compared.candidate), strict=True)
        ]
    target = left["target"]
    text = left["prompt"] if left["question"] is None else left["question"]
    toggled = "plain" if filters.view == "difference" else "difference"
    return PairPage(
        base=sides[0],
        candidate=sides[1],
        filters=filters,
        comparison=found.compared.comparison,
        sample_id=sample_id,
        subset=str(found.subset[place]),
        kind=KINDS[found.kind[place]],
        question=makers.sent(text or "", pictures_of(library, base, left, visit.links)),
        target=None if target is None else as_html(target),
        same=same,
        spot=spot,
        matching=len(rows),
        back=visit.questions(page=spot.page, view="plain"),
        all_texts=visit.question(sample_id, "full=yes"),
        toggled_view=visit.question(sample_id, view=toggled),
    )


def _side(
    makers: TextMaker,
    stored: StoredSet,
    scored: Result,
    row: int,
    value: float,
    texts: dict[str, Any],
    href: str,
) -> PairSide:
    if texts["error"] is None:
        read = place_read(scored, row) or (-1, -1)
        thought, answer, mark, is_open = thought_and_answer(
            texts, read, verdict=stored.run is not None
        )
    else:
        thought, answer, mark, is_open = texts["reasoning"] or None, texts["error"], None, False
    text, cut = makers.cut(answer or "")
    if mark is not None and mark[1] > len(text):
        mark = None
    return PairSide(
        stored=stored,
        value=value,
        extracted=extracted_line(scored, row),
        thought=None if thought is None else makers.plain(thought),
        thought_open=is_open,
        text=text,
        answer=HtmlText(marked(text, mark), cut),
        href=href,
    )
