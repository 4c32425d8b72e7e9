"""Texts of the chosen answers: cut to what can be read, and without questions that must not be published."""

from collections.abc import Iterator, Sequence
from typing import Any

from regrade.pages.report.choosing import ChosenAnswer
from regrade.pages.viewer.answer_facts import letters_of
from regrade.pages.viewer.answer_texts import thought_and_answer
from regrade.pages.viewer.library import Library, StoredSet
from regrade.pages.viewer.verdicts import VERDICTS
from regrade.records.messages import parts_of
from regrade.settings.errors import DamagedAnswersError
from regrade.settings.view_address import comparison_address, view_address
from regrade.text.blocks import (
    Badge,
    Block,
    Code,
    Fold,
    Gap,
    Highlight,
    Line,
    Link,
    Picture,
    Quote,
    SideBySide,
    Strong,
    Table,
    Words,
    plain,
)
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


def examples_of(library: Library, choices: Sequence[ChosenAnswer]) -> Iterator[Fold]:
    """Yield the chosen answers with their texts, each folded.

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
) -> Fold:
    """Return a chosen answer, beside the baseline's if it flipped."""
    stored, flip = choice.stored, choice.flip
    if flip is not None and before is not None:
        models, texts = (flip.base, stored), (before, mine)
        sides = [*zip(models, texts, flip.scores, flip.verdicts, strict=True)]
    else:
        index, row = choice.index, choice.row
        score = {
            "extracted": index.extracted[row].as_py(),
            "start": int(index.start[row]),
            "end": int(index.end[row]),
        }
        sides = [(stored, mine, score, VERDICTS[index.verdict[row]])]
    kind = sides[-1][3] if choice.kind == "unparsed" else choice.kind
    read = " → ".join(_short(score["extracted"], "nothing") for _, _, score, _ in sides)
    repeat = f"repeat {mine['repeat']}" if mine["repeat"] else ""
    question = f"{stored.benchmark} {mine['index']}"
    place = " · ".join(filter(None, (question, mine["subset"], repeat)))
    target = _short(mine["target"], "not known")
    title = (Badge(kind), f" · {place} · read: ", Code(read), " · target: ", Code(target))
    address = _address(choice, mine)
    ids: tuple[Words, ...] = (
        *("sample ", Code(mine["sample_id"]), " of answer set ", Code(stored.id)),
        *((" · ", Link("in the viewer", address)) if address else ()),
    )
    answers = [list(_answer(*side)) for side in sides]
    shown = [SideBySide(answers)] if len(answers) > 1 else answers[0]
    return Fold(title, [_asked(stored, mine, album), *shown, Line(ids, "note")])


def _asked(stored: StoredSet, texts: dict[str, Any], album: _Album) -> Block:
    """Return the question, or the end of the prompt; a remark if neither is stored, or it must not be published."""
    is_prompt = texts["question"] is None
    cut = _cut(texts["prompt"] if is_prompt else texts["question"], QUESTION_CHARACTERS)
    asked = album.with_images(cut, stored, texts)
    if asked is not None:
        return Quote("end of the prompt" if is_prompt else "question", asked)
    if stored.manifest.withheld:
        return Line("This question must not be published.", "note")
    return Line("Neither question nor prompt is stored.", "note")


def _answer(
    stored: StoredSet, texts: dict[str, Any], score: dict[str, Any], verdict: str
) -> Iterator[Block]:
    span = tuple(-1 if score[name] is None else int(score[name]) for name in ("start", "end"))
    said, told, mark, _ = thought_and_answer(
        texts, (span[0], span[1]), verdict=stored.run is not None
    )
    yield Line((Strong(stored.model), " ", Badge(verdict)))
    if thought := _cut(said, THOUGHT_CHARACTERS):
        yield Fold("thought", [Quote("", thought)])
    if error := _cut(texts["error"], THOUGHT_CHARACTERS):
        yield Quote("", error, "bad")
    if answer := _cut(told, ANSWER_CHARACTERS, mark):
        yield Quote("", answer)
    if letters := letters_of(texts, score["extracted"]):
        rows = [
            (
                *(letter.letter, letter.choice),
                "" if letter.logprob is None else f"{letter.logprob:.3f}",
                ", ".join(["target"] * letter.is_target + ["read"] * letter.is_read),
            )
            for letter in letters
        ]
        yield Table(("", "choice", "log-probability", "is"), rows, ("", "choice", "is"))
    if not (error or answer or letters):
        yield Line("There is no text.", "note")


def _short(text: str | None, otherwise: str) -> str:
    if text is None:
        return otherwise
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:60]}…"


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
