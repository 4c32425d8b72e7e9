r"""Final answer of a mathematical text: in its last box, tag or field, after `####` or `the answer is`, or its last formula."""

from collections.abc import Iterator
from itertools import islice

from regrade.records.patterns import InAscii, compiled
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

_BOX = compiled(r"\\f?boxed\s*(?:(?P<token>\w+)|\{)")
_BRACES = compiled(r"(?s)\\.|[{}]")
_LIST = compiled(
    r"(?:and|or)?(?:(?:[\s$,;.&]|\\[()\[\],;! ]|\\text\{[\s,]*(?:and|or)[\s,]*\})(?:and|or)?|\\q?quad)*"
)
"""No `and` stands beside another, or ends the name of a command."""
_JOINS = (",", ";", "&", "and", "or")
"""Parts of a text that is a `_LIST`, if it joins its neighbours."""
_PLACEHOLDER = compiled(
    r"[\s.{}$_?]*|\\[lc]?dots|(?i:(?:your |the )?(?:f[i\u0130\u0131]nal )?answer|result)"
)
_ENDS = {"$$": "$$", "\\[": "\\]", "\\(": "\\)"}
_HASHES = "####"
_LONGEST_LINE = 200
"""Most characters read of a line after them."""
_HEADING = compiled(
    r"[*\s]*(?:\d+[.):]\**\s+[A-Za-z*]|(?i:step|part|case|solut[i\u0130\u0131]on|f[i\u0130\u0131]nal|answer)(?:\W|\Z))"
)
_NUMBER = compiled(
    r"[^\w.\\^](?P<number>-?\s?\\?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:\s?/\s?\d+(?:\.\d+)?)?(?:\s?\\?%)?)"
    r"(?:[^\W\d]|[/^])*(?:[^\w/^]|\Z)"
)
"""A number with the character before it, and what follows: no digit after letters, `/` and `^`; in a text made of ASCII."""
_IN_ASCII = InAscii({ord("\u2212"): ord("-"), **{ord(sign): ord("$") for sign in "€£¥₹"}})
_REASON = compiled(r"[,;]?\s+\(?(?:because|since|as|where|when|given|if|so that|which)(?:\W|\Z)")
_SENTENCE_END = compiled(r"[A-Za-z0-9)\]}$%*](?P<end>[.!?])[*\"')\]]*(?:\s|\Z)|(?P<line>\n)")
_WORDS = compiled(r"\\[A-Za-z]+\*?|\w+")
_COMMANDS = frozenset(
    [
        "sqrt",
        "pi",
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "log",
        "ln",
        "exp",
        "inf",
        "infinity",
        "or",
        "and",
        "mod",
    ]
)
"""Words of formulas, besides those that begin with a backslash."""
_WORD = compiled(r"[^\W\d_]{2,}")
_LETTER_OR_DIGIT = compiled(r"\w")
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
        if not _joins(between):
            break
        start, answers = before.start, [before.answer, *answers]
    return Part(start, last.end, ", ".join(answers))


def is_cut_off(text: str) -> bool:
    """Return True if a box of a text has no end."""
    return None in _boxes(text)


def read_after_hashes(text: str) -> Part | None:
    """Return the answer on the last line that begins with `####` and is no heading."""
    for start, line in reversed(list(_after_hashes(text))[-_MOST_PLACES:]):
        if not _HEADING.match(line):
            part = read_sentence(line)
            if part is not None:
                return _moved(part, start)
    return None


def _after_hashes(text: str) -> Iterator[tuple[int, str]]:
    """Yield first place and text of what follows each `####` on its line."""
    end = 0
    while (begin := text.find(_HASHES, end)) >= 0:
        start = begin + len(_HASHES)
        while text[start : start + 1] in (" ", "\t"):
            start += 1
        line = text[start : start + _LONGEST_LINE].partition("\n")[0]
        end = start + len(line)
        yield start, line


def read_sentence(text: str) -> Part | None:
    """Return the answer in the text after a marker such as `the answer is`: its formula, number or few words."""
    begin = len(text) - len(text.lstrip(_MARKS))
    formula = next(_each_formula(text, begin), None)
    displayed = formula is not None and formula.start == begin  # may have several lines
    end = _sentence_end(text, formula.end if formula and displayed else begin)
    sentence = text[begin:end]
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
        later = list(_numbers(text, last.end))
        if not later:
            line = _line_start(text, last.start)
            return _formulas(text[line:], line)
        return _stripped(text, *later[-1])
    numbers = list(_numbers(text))
    return _stripped(text, *numbers[-1]) if numbers else None


def _boxes(text: str) -> Iterator[Part | None]:
    """Yield the content of each box in order; None for a box that does not end."""
    for opening in list(_BOX.finditer(text))[-_MOST_PLACES:]:
        if opening["token"] is not None:
            yield Part(*opening.span("token"), opening["token"])
            continue
        begin, depth = opening.end(), 1
        end = text.find("}", begin, begin + LONGEST - 1)
        inside = text[begin:end]
        if end >= 0 and "{" not in inside and "\\" not in inside:
            yield Part(begin, end, inside.strip())
            continue
        for brace in _BRACES.finditer(text[begin : begin + LONGEST - 1]):
            depth += {"{": 1, "}": -1}.get(brace[0], 0)
            if depth == 0:
                end = begin + brace.start()
                yield Part(begin, end, text[begin:end].strip())
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
        if not _joins(between):
            break
        start, answers = before.start, [before.answer, *answers]
    return Part(offset + start, offset + last.end, ", ".join(answers))


def _joins(between: str) -> bool:
    """Return True if a text joins the answers around it to a list."""
    return _LIST.fullmatch(between) is not None and any(mark in between for mark in _JOINS)


def _each_formula(text: str, start: int = 0) -> Iterator[Part]:
    """Yield the formulas in order. No part of the text is searched twice for the same mark, if it has none."""
    without_end: set[str] = set()
    nearest = {mark: text.find(mark, start) for mark in ("$", "\\[", "\\(")}
    while places := [place for place in nearest.values() if place >= 0]:
        begin = min(places)
        mark = text[begin : begin + 2]
        if mark in _ENDS:
            end = -1 if mark in without_end else text.find(_ENDS[mark], begin + 3)
            if end < 0:
                without_end.add(mark)
                start = begin + 1
            else:
                start = end + 2
                yield Part(begin, start, text[begin + 2 : end].strip())
        else:
            end = text.find("$", begin + 1)
            start = begin + 1
            if end > 0 and _is_between_dollars(text, begin, end):
                start = end + 1
                yield Part(begin, start, text[begin + 1 : end].strip())
        for mark, place in nearest.items():
            if 0 <= place < start:
                nearest[mark] = text.find(mark, start)


def _is_between_dollars(text: str, begin: int, end: int) -> bool:
    """Return True if two dollars, of which none is between them, are around a formula on one line."""
    return not (
        "\n" in text[begin:end]
        or (begin > 0 and text[begin - 1] in "\\$")
        or text[begin + 1].isspace()
        or text[end - 1] == "\\"
        or text[end - 1].isspace()
        or text[end + 1 : end + 2].isdecimal()
    )


def _numbers(text: str, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield first and last place of each number in order."""
    spaced = f" {text}".translate(_IN_ASCII)  # a character before each number
    while (found := _NUMBER.search(spaced, start)) is not None:
        begin, end = found.span("number")
        yield begin - 1, end - 1
        start = end - 1


def _sentence_end(text: str, start: int) -> int:
    """Return the place of the mark that ends the sentence at `start`."""
    is_within = start > 0 and text[start - 1] != "\n"
    found = _SENTENCE_END.search(text, start - is_within)
    return len(text) if found is None else max(found.start("end"), found.start("line"))


def _plain(sentence: str) -> Part | None:
    """Return the answer of a sentence without marked formulas."""
    whole = _stripped(sentence, 0, len(sentence))
    if whole is None or _is_formula(whole.answer):
        return whole
    numbers = list(islice(_numbers(sentence), 2))
    if numbers and (len(numbers) == 1 or not sentence[: numbers[0][0]].strip(_MARKS)):
        return _stripped(sentence, *numbers[0])
    if numbers or len(whole.answer) > _LONGEST_TEXT:
        return None
    return whole


def _is_formula(text: str) -> bool:
    return _LETTER_OR_DIGIT.search(text) is not None and not _has_words(text)


def _has_words(text: str) -> bool:
    """Return True if a text has words that are no commands of formulas."""
    return _WORD.search(text) is not None and any(
        word[0] != "\\" and word not in _COMMANDS and _WORD.search(word)
        for word in (found[0] for found in _WORDS.finditer(text))
    )


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
