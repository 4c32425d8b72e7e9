"""Texts of the chosen answers: cut to what can be read, and without questions that must not be published."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from regrade.pages.report.choosing import ChosenAnswer
from regrade.pages.viewer.answer_facts import Letter, letters_of
from regrade.pages.viewer.answer_texts import thought_and_answer
from regrade.pages.viewer.library import Library, StoredSet
from regrade.pages.viewer.verdicts import VERDICTS
from regrade.records.messages import parts_of
from regrade.settings.errors import DamagedAnswersError
from regrade.settings.view_address import comparison_address, view_address
from regrade.text.blocks import Gap, Highlight, Picture, Words, plain
from regrade.text.hidden import Span

Cut = tuple[Words, ...]
"""A text: its start, its end and what the scorer read."""
QUESTION_CHARACTERS = 3_000
ANSWER_CHARACTERS = 5_000
THOUGHT_CHARACTERS = 3_000
COLUMNS = (
    *("sample_id", "index", "repeat", "subset", "question", "prompt", "target", "choices"),
    *("continuations", "label_logprobs", "label_is_greedy", "text", "reasoning"),
    *("reasoning_open", "error", "images"),
)
EMBEDDED_BYTES = 8 * 2**20
"""Most bytes of images in a report; base64 takes a third more."""
LARGEST_EMBEDDED = 2 * 2**20
"""Largest image in a report, in bytes."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One answer."""

    model: str
    verdict: str
    extracted: str | None
    answer: Cut | None
    thought: Cut | None
    error: Cut | None
    letters: tuple[Letter, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """A chosen answer, with the baseline's before it if it flipped."""

    kind: str
    benchmark: str
    answer_set_id: str
    sample_id: str
    number: int
    repeat: int
    subset: str
    withheld: bool
    question: Cut | None
    """The question, or the end of the prompt; None if neither is stored, or it must not be published."""
    is_prompt: bool
    target: str | None
    answers: tuple[Shown, ...]
    address: str | None
    """Address in the team's viewer."""


def examples_of(library: Library, choices: Sequence[ChosenAnswer]) -> Iterator[Example]:
    """Yield the chosen answers with their texts.

    Args:
        library: Repository of the answers; it reads those of baselines in other repositories too.
        choices: Chosen answers.
    """
    rows: dict[str, tuple[StoredSet, list[int]]] = {}
    for choice in choices:
        rows.setdefault(choice.stored.id, (choice.stored, []))[1].append(choice.row)
        if choice.flip is not None:
            flip = choice.flip
            rows.setdefault(f"base {flip.base.id}", (flip.base, []))[1].append(flip.row)
    texts = {key: _texts(library, stored, wanted) for key, (stored, wanted) in rows.items()}
    album = _Album(library)
    for choice in choices:
        mine = texts[choice.stored.id][choice.row]
        before = None
        if choice.flip is not None:
            before = texts[f"base {choice.flip.base.id}"][choice.flip.row]
        yield _example(choice, mine, before, album)


class _Album:
    """Images of a report's questions, as many as have room."""

    def __init__(self, library: Library) -> None:
        self._library, self._room = library, EMBEDDED_BYTES

    def with_images(self, text: Cut | None, stored: StoredSet, row: dict[str, Any]) -> Cut | None:
        """Return a question with its images where their marks stand, or with words about them."""
        if text is None or not row["images"]:
            return text
        found: list[Words] = []
        for words in text:
            if isinstance(words, str):
                found += [
                    part.text if part.sha256 is None else self._shown(part.sha256, stored, row)
                    for part in parts_of(words, row["images"])
                ]
            else:
                found.append(words)
        return tuple(found)

    def _shown(self, sha256: str, stored: StoredSet, row: dict[str, Any]) -> Words:
        try:
            images = self._library.images(stored.answers)
            if sha256 not in images:
                return stored.answers.absent_image(sha256, row["index"])
            image = images.read(sha256)
        except DamagedAnswersError:
            return f"[image {sha256[:8]} is damaged]"
        kind = image.media_type.removeprefix("image/").upper()
        named = f"image {sha256[:8]}: {kind}, {image.width:,} x {image.height:,} pixels"
        if len(image.content) > min(self._room, LARGEST_EMBEDDED):
            return f"[{named}, too large for this page]"
        self._room -= len(image.content)
        return Picture(f"[{named}]", image.data_uri)


def _texts(library: Library, stored: StoredSet, rows: list[int]) -> dict[int, dict[str, Any]]:
    wanted = sorted(set(rows))
    read = library.readers.take(stored.answers, wanted, COLUMNS).to_pylist()
    return dict(zip(wanted, map(stored.answers.public, read), strict=True))


def _example(
    choice: ChosenAnswer, mine: dict[str, Any], before: dict[str, Any] | None, album: _Album
) -> Example:
    answers: tuple[Shown, ...]
    if choice.flip is not None and before is not None:
        scores, verdicts = choice.flip.scores, choice.flip.verdicts
        answers = (
            _shown(choice.flip.base, before, scores[0], verdicts[0]),
            _shown(choice.stored, mine, scores[1], verdicts[1]),
        )
    else:
        index, row = choice.index, choice.row
        score = {
            "extracted": index.extracted[row].as_py(),
            "start": int(index.start[row]),
            "end": int(index.end[row]),
        }
        answers = (_shown(choice.stored, mine, score, VERDICTS[index.verdict[row]]),)
    is_prompt = mine["question"] is None
    question = mine["prompt"] if is_prompt else mine["question"]
    return Example(
        kind=answers[-1].verdict if choice.kind == "unparsed" else choice.kind,
        benchmark=choice.stored.benchmark,
        answer_set_id=choice.stored.id,
        sample_id=mine["sample_id"],
        number=mine["index"],
        repeat=mine["repeat"],
        subset=mine["subset"],
        withheld=choice.stored.manifest.withheld,
        question=album.with_images(_cut(question, QUESTION_CHARACTERS), choice.stored, mine),
        is_prompt=is_prompt,
        target=mine["target"],
        answers=answers,
        address=_address(choice, mine),
    )


def _shown(stored: StoredSet, texts: dict[str, Any], score: dict[str, Any], verdict: str) -> Shown:
    span = tuple(-1 if score[name] is None else int(score[name]) for name in ("start", "end"))
    thought, answer, mark, _ = thought_and_answer(
        texts, (span[0], span[1]), verdict=stored.run is not None
    )
    extracted = score["extracted"]
    return Shown(
        model=stored.model,
        verdict=verdict,
        extracted=extracted,
        answer=_cut(answer, ANSWER_CHARACTERS, mark),
        thought=_cut(thought, THOUGHT_CHARACTERS),
        error=_cut(texts["error"], THOUGHT_CHARACTERS),
        letters=letters_of(texts, extracted),
    )


def _cut(text: str | None, limit: int, mark: Span | None = None) -> Cut | None:
    """Return at most about `limit` characters: the first quarter, and the end or the surroundings of the marked part."""
    if text is None:
        return None
    if len(text) <= limit:
        return tuple(_marked(text, 0, len(text), mark))
    first = limit // 4
    rest = limit - first
    stop = len(text)
    if mark is not None and mark[0] < stop - rest:
        stop = max(first, min(stop, mark[0] + rest // 2))
    start = max(first, stop - rest)
    return (
        *_marked(text, 0, first, mark),
        *_left_out(start - first),
        *_marked(text, start, stop, mark),
        *_left_out(len(text) - stop),
    )


def _marked(text: str, start: int, stop: int, mark: Span | None) -> Iterator[Words]:
    """Yield a part of a text, with what is marked in it."""
    low, high = (start, start) if mark is None else (min(max(at, start), stop) for at in mark)
    pieces = (text[start:low], Highlight(text[low:high]), text[high:stop])
    yield from (piece for piece in pieces if plain(piece))


def _left_out(characters: int) -> Iterator[Gap]:
    if characters:
        yield Gap(f"\n… {characters:,} characters left out …\n")


def _address(choice: ChosenAnswer, texts: dict[str, Any]) -> str | None:
    answers, flip = choice.stored.answers, choice.flip
    if flip is not None:
        return comparison_address(
            (flip.base.answers.repository.uri, answers.repository.uri),
            flip.base.id,
            choice.stored.id,
            sample_id=flip.sample_id,
            revision=answers.revision,
        )
    return view_address(
        answers.repository.uri,
        choice.stored.id,
        sample_id=texts["sample_id"],
        repeat=texts["repeat"],
        revision=answers.revision,
    )
