r"""Final answer of a mathematical text: in its last box, tag or field, after `####` or `the answer is`, or its last formula."""

import re
from collections.abc import Iterator

from regrade.scorers.extraction.pieces import Pieces
from regrade.scorers.extraction.slots import (
    LONGEST,
    STATEMENTS,
    STRUCTURED,
    Found,
    Part,
    Slots,
    TextReader,
    read,
    read_each,
)

_BOX = re.compile(r"\\f?boxed\s*(?=[{\w])")
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
_LIST = re.compile(
    r"(?:[\s$,;.&]|\\[()\[\],;! ]|\\q?quad|\\text\{[\s,]*(?:and|or)[\s,]*\}|\b(?:and|or)\b)*"
)
_JOINS = re.compile(r"[,;&]|\b(?:and|or)\b")
_PLACEHOLDER = re.compile(r"[\s.{}$_?]*|\\[lc]?dots|(?i:(?:your |the )?(?:final )?answer|result)")
_FORMULA = re.compile(r"(\$\$|\\[\[(])|(?<![\\$])\$(?!\s)([^$\n]++)(?<![\\\s])\$(?!\d)")
"""Beginning of a formula, or a formula between single dollars."""
_ENDS = {"$$": "$$", "\\[": "\\]", "\\(": "\\)"}
_HASHES = re.compile(r"####[ \t]*(?P<line>[^\n]{0,200})")
_HEADING = re.compile(
    r"[*\s]*(?:\d+[.):]\**\s+[A-Za-z*]|(?i:step|part|case|solution|final|answer)\b)"
)
_NUMBER = re.compile(
    r"(?<![\w.\\^])[-\u2212]?\s?\\?[$€£¥₹]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:\s?/\s?\d+(?:\.\d+)?)?(?:\s?\\?%)?(?!(?:[^\W\d]|[/^])*+\d)"
)
_REASON = re.compile(
    r"(?:[,;]|(?<!\s))\s++\(?(?:because|since|as|where|when|given|if|so that|which)\b"
)
_SENTENCE_END = re.compile(r"(?<=[A-Za-z0-9)\]}$%*])[.!?](?=\s|[*\"')\]]*\s|[*\"')\]]*\Z)|\n")
_COMMAND = re.compile(
    r"\\[A-Za-z]+\*?|\b(?:sqrt|pi|sin|cos|tan|cot|sec|csc|log|ln|exp|inf|infinity|or|and|mod)\b"
)
_WORD = re.compile(r"[^\W\d_]{2,}")
_MARKS = " \t\r\n*_`\"'\u201c\u201d:"
_END_MARKS = " \t\r\n*_`\"'\u201c\u201d.,;"
_LONGEST_TEXT = 60
"""Longest answer in words, such as `Evelyn` or `no solution`, in characters."""
_MOST_PLACES = 50
"""Number of boxes, or lines after `####`, that are read, from the end of a text."""


def read_answers(texts: Pieces) -> Found:
    """Read the answer of each text.

    A box decides; if it is cut off at the end of the text, there is no answer, and no earlier text counts. Without a
    box the tag `<answer>` or the JSON field `answer` decides, then a line after `####`, then a statement such as `the
    answer is`, then the last formula or number.
    """
    found = read_each(texts.where(texts.matches(r"\\f?boxed")), read_box, is_cut_off)
    in_slots, _ = read(
        texts.where(found.open), STRUCTURED[1:], lambda slots: _read_slot(slots, read_whole)
    )
    found = found.otherwise(in_slots)
    found = found.otherwise(read_each(texts.where(found.open), read_after_hashes))
    stated, _ = read(
        texts.where(found.open), STATEMENTS, lambda slots: _read_slot(slots, read_sentence)
    )
    found = found.otherwise(stated)
    return found.otherwise(read_each(texts.where(found.open), read_last))


def read_box(text: str) -> Part | None:
    r"""Return the content of the last `\boxed{}` that is not blank; with the boxes before it, if they form a list."""
    boxes = [box for box in _boxes(text) if box is None or not _PLACEHOLDER.fullmatch(box.answer)]
    if not boxes or (last := boxes.pop()) is None:
        return None
    start, answers = last.start, [last.answer]
    while boxes and (before := boxes.pop()) is not None:
        if before.end > start:  # a box around the last one
            continue
        opening = text.rindex("\\", before.end, start)
        between = text[before.end + (text[before.end] == "}") : opening]
        if not (_LIST.fullmatch(between) and _JOINS.search(between)):
            break
        start, answers = before.start, [before.answer, *answers]
    return Part(start, last.end, ", ".join(answers))


def is_cut_off(text: str) -> bool:
    """Return True if a box of a text has no end."""
    return None in _boxes(text)


def read_after_hashes(text: str) -> Part | None:
    """Return the answer on the last line that begins with `####` and is no heading."""
    for line in reversed(list(_HASHES.finditer(text))[-_MOST_PLACES:]):
        if not _HEADING.match(line["line"]):
            part = read_sentence(line["line"])
            if part is not None:
                return _moved(part, line.start("line"))
    return None


def read_sentence(text: str) -> Part | None:
    """Return the answer in the text after a marker such as `the answer is`: its formula, number or few words."""
    begin = len(text) - len(text.lstrip(_MARKS))
    formula = next(_each_formula(text, begin), None)
    displayed = formula is not None and formula.start == begin  # may have several lines
    end = _SENTENCE_END.search(text, formula.end if formula and displayed else begin)
    sentence = text[begin : end.start() if end else len(text)]
    reason = _REASON.search(sentence)
    shorter = sentence[: reason.start()] if reason else sentence
    part = _formulas(shorter) or _plain(shorter)
    if reason and (part is None or not _is_formula(part.answer)):  # `the largest one, which is 8`
        part = _formulas(sentence) or _plain(sentence)
    return None if part is None else _moved(part, begin)


def read_whole(text: str) -> Part | None:
    """Return the answer of a text that consists of it, or of a sentence with one number."""
    if len(text) > LONGEST:
        return None
    part = _formulas(text)
    if part is not None and not _WORD.search(text[: part.start] + text[part.end :]):
        return part
    return _plain(text) or _stripped(text, 0, len(text))


def read_last(text: str) -> Part | None:
    """Return the last formula or number of a text, or the text if it consists of an answer."""
    if len(text) > LONGEST:
        part = read_last(text[-LONGEST:])
        return None if part is None else _moved(part, len(text) - LONGEST)
    whole = _stripped(text, 0, len(text))
    if whole is None:
        return None
    if (
        "\n" not in whole.answer
        and _is_formula(whole.answer)
        and not any(_each_formula(whole.answer))
    ):
        return whole
    formulas = list(_each_formula(text))
    if formulas:
        last = formulas[-1]
        later = list(_NUMBER.finditer(text, last.end))
        if not later:
            line = _line_start(text, last.start)
            return _formulas(text[line:], line)
        return _stripped(text, *later[-1].span())
    numbers = list(_NUMBER.finditer(text))
    return _stripped(text, *numbers[-1].span()) if numbers else None


def _boxes(text: str) -> Iterator[Part | None]:
    """Yield the content of each box in order; None for a box that does not end."""
    for opening in list(_BOX.finditer(text))[-_MOST_PLACES:]:
        begin = opening.end()
        if text[begin] != "{":
            token = re.compile(r"\w+").match(text, begin)
            if token is not None:
                yield Part(begin, token.end(), token[0])
            continue
        depth = 0
        for brace in _BRACES.finditer(text, begin, begin + LONGEST):
            depth += {"{": 1, "}": -1}.get(brace[0], 0)
            if depth == 0:
                yield Part(begin + 1, brace.start(), text[begin + 1 : brace.start()].strip())
                break
        else:
            yield None


def _formulas(text: str, offset: int = 0) -> Part | None:
    """Return the last formula of a text, with those before it that form a list with it."""
    formulas = list(_each_formula(text))
    if not formulas:
        return None
    last = formulas.pop()
    start, answers = last.start, [last.answer]
    while formulas:
        before = formulas.pop()
        between = text[before.end : start]
        if not (_LIST.fullmatch(between) and _JOINS.search(between)):
            break
        start, answers = before.start, [before.answer, *answers]
    return Part(offset + start, offset + last.end, ", ".join(answers))


def _each_formula(text: str, start: int = 0) -> Iterator[Part]:
    """Yield the formulas in order. An end that stands nowhere later is searched once."""
    without_end: set[str] = set()
    while (found := _FORMULA.search(text, start)) is not None:
        begin, start = found.span()
        if (mark := found[1]) is None:
            yield Part(begin, start, found[2].strip())
            continue
        end = -1 if mark in without_end else text.find(_ENDS[mark], start + 1)
        if end < 0:
            without_end.add(mark)
            start = begin + 1
        else:
            start = end + 2
            yield Part(begin, start, text[begin + 2 : end].strip())


def _plain(sentence: str) -> Part | None:
    """Return the answer of a sentence without marked formulas."""
    whole = _stripped(sentence, 0, len(sentence))
    if whole is None or _is_formula(whole.answer):
        return whole
    numbers = list(_NUMBER.finditer(sentence))
    if numbers and (len(numbers) == 1 or not sentence[: numbers[0].start()].strip(_MARKS)):
        return _stripped(sentence, *numbers[0].span())
    if numbers or len(whole.answer) > _LONGEST_TEXT:
        return None
    return whole


def _is_formula(text: str) -> bool:
    return not _WORD.search(_COMMAND.sub(" ", text)) and re.search(r"[\w]", text) is not None


def _stripped(text: str, start: int, end: int) -> Part | None:
    """Return a part without marks around it; None if nothing is left."""
    part = text[start:end]
    start += len(part) - len(part.lstrip(_MARKS))
    part = text[start:end].rstrip(_END_MARKS)
    return Part(start, start + len(part), part) if part else None


def _moved(part: Part, by: int) -> Part:
    return Part(part.start + by, part.end + by, part.answer)


def _line_start(text: str, position: int) -> int:
    return text.rfind("\n", 0, position) + 1


def _read_slot(slots: Slots, reader: TextReader) -> Found:
    return read_each(slots.content, reader)
