"""Read the program out of an answer."""

import re
from dataclasses import dataclass
from functools import lru_cache

from regrade.records.patterns import Pattern, compiled

_FENCE = compiled(
    r"(?m)^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[^\s`]*)[^\n`]*$"
)
_PYTHON = frozenset({"", "python", "py", "python3", "py3", "python2", "pycon", "ipython"})
_STATEMENT = compiled(
    r"(?:async\s+def|def|class|import|from|if|for|while|with|try|except|else|elif|finally|return|raise|assert|global)(?:\W|\Z)"
    r"|@|\#|'''|\"\"\"|[\])}]|[A-Za-z_][\w.]*(?:\[[^\n]*\])?\s*(?:[-+*/%|&^]|//|\*\*|>>|<<)?=[^=]"
    r"|[A-Za-z_][\w.]*\("
)
"""First characters of a line of a program, as opposed to a sentence."""


_INDENTATION = compiled(r"(?:[ \t]*\n)*(?P<indent>[ \t]+)\S")
"""What stands before the first line, if that is indented."""
_QUOTES = compiled(r"'''|\"\"\"")


@dataclass(frozen=True, slots=True)
class Program:
    """A program in an answer."""

    source: str
    start: int
    """Character of the answer at which it begins."""
    end: int
    """Character after its last."""
    labelled: bool = False
    """It stands in a fenced block that says that it is Python."""


def read_program(answer: str, name: str | None, *, is_completion: bool) -> Program | None:
    """Return the program in an answer, or None if it has none.

    From a chat answer: the last fenced block that defines `name`, else the last that says that it is Python, else the last one
    without a language; without fenced blocks, or before a fence that ends a block of the prompt, the lines that are a program, if they define `name`, or
    all lines if the first is an indented statement: the body of a function that the prompt has begun. A fence that is not closed ends with the answer.
    A completion is a program as a whole, unless it has fenced blocks that define `name`.

    Args:
        answer: Text of the answer, without reasoning.
        name: Function or class that the program should define; None for a program that reads its input.
        is_completion: True if the answer continues the prompt.
    """
    blocks = fenced_blocks(answer)
    defining = [block for block in blocks if name and defines(block.source, name)]
    if defining:
        return defining[-1]
    if is_completion:
        return Program(answer, 0, len(answer)) if answer.strip() else None
    fence = _FENCE.search(answer)
    if (
        fence is not None
        and not fence["language"]
        and name
        and defines(answer[: fence.start()], name)
    ):
        return _bare_program(answer[: fence.start()], name)  # the prompt had opened the block
    opened = answer[: fence.start()] if fence is not None and not fence["language"] else answer
    if name and (fence is None or opened != answer):
        indentation = _INDENTATION.match(opened)
        if indentation is not None and _STATEMENT.match(opened[indentation.end("indent") :]):
            return Program(opened, 0, len(opened))  # the prompt had begun the function
    if blocks:
        # A block without a language after the program is often its output.
        return next((block for block in reversed(blocks) if block.labelled), blocks[-1])
    return _bare_program(answer, name)


def defines(source: str, name: str) -> bool:
    """True if a program has a function, class or variable of this name at its top level."""
    return name in source and _definition(name).search(source) is not None


@lru_cache(512)
def _definition(name: str) -> Pattern:
    name = re.escape(name)
    return compiled(
        rf"(?m)^(?:(?:(?:async[ \t]+)?def|class)[ \t]+{name}(?:\W|\Z)|{name}[ \t]*(?::[^\n=]*)?=[^=])"
    )


def fenced_blocks(answer: str) -> list[Program]:
    """Return the fenced blocks of Python, or of no language, that are not empty."""
    if "```" not in answer and "~~~" not in answer:
        return []
    blocks = []
    opened: re.Match[str] | None = None
    for match in _FENCE.finditer(answer):
        fence = match["fence"]
        if opened is None:
            opened = match
        elif _closes(fence, opened["fence"]) and not match["language"]:
            blocks.append(_block(answer, opened, match.start()))
            opened = None
    if opened is not None:
        blocks.append(_block(answer, opened, len(answer)))
    return [block for block in blocks if block is not None and block.source.strip()]


def _closes(fence: str, opening: str) -> bool:
    return fence[0] == opening[0] and len(fence) >= len(opening)


def _block(answer: str, opening: re.Match[str], end: int) -> Program | None:
    """Return the program of a fenced block without the indentation of its fence; None for another language.

    https://spec.commonmark.org/0.31.2/#fenced-code-blocks
    """
    language = opening["language"].lower()
    if language not in _PYTHON:
        return None
    start = min(opening.end() + 1, len(answer))
    source = answer[start:end]
    if indent := len(opening["indent"].expandtabs(4)):
        source = "\n".join(
            line[min(indent, len(line) - len(line.lstrip(" \t"))) :] for line in source.split("\n")
        )
    return Program(source, start, end, labelled=language != "")


def _bare_program(answer: str, name: str | None) -> Program | None:
    """Return the lines from the first statement to the last, if they define `name` or, without one, begin a program."""
    lines = answer.splitlines(keepends=True)
    begins = [number for number, line in enumerate(lines) if _STATEMENT.match(line)]
    if not begins:
        return None
    first = begins[0]
    end = first
    quotes = ""  # of a string of several lines
    for number in range(first, len(lines)):
        line = lines[number]
        is_text = quotes or not line.strip() or line[0].isspace()
        if not is_text and not _STATEMENT.match(line):
            break
        for quote in _QUOTES.findall(line) if "'''" in line or '"""' in line else ():
            quotes = "" if quote == quotes else quotes or quote
        end = number + 1
    source = "".join(lines[first:end]).rstrip()
    usable = defines(source, name) if name else _STATEMENT.match(source.lstrip()) is not None
    start = sum(map(len, lines[:first]))
    return Program(source, start, start + len(source)) if usable and source else None
