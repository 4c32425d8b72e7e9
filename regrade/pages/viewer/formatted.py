"""Markdown and formulas of an answer as HTML, if a reader asks for them.

Off by default: a scorer reads the text, not its form. Nothing becomes a link, an image or HTML of the answer's own, and hidden
characters stay visible. Formulas become MathML if latex2mathml is installed, else they stay text.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from xml.etree import ElementTree

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markupsafe import Markup

from regrade.records.patterns import compiled
from regrade.text.hidden import Span, as_html, is_hidden

MAX_CHARACTERS = 100_000
"""Longest text that is formatted; a longer one is shown as it is."""
MAX_FORMULA = 2_000
_OPEN, _CLOSE = "\ue000", "\ue001"
"""Characters for private use around the marked part, while Markdown is read; those of the answer are replaced before."""
_MARKED = compiled(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")
_DELIMITERS = (("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"), ("$", "$"))
_MATHML = "http://www.w3.org/1998/Math/MathML"
_ELEMENTS = frozenset(
    re.findall(
        r"\w+",
        "math mrow mi mn mo ms mspace mtext mfrac msqrt mroot msub msup msubsup munder mover munderover mmultiscripts "
        "mprescripts none mtable mtr mtd menclose mstyle mpadded mphantom mfenced",
    )
)
_ATTRIBUTES = frozenset(
    re.findall(
        r"\w+",
        "display stretchy fence separator accent accentunder columnalign rowspacing columnspacing columnlines rowlines "
        "notation linethickness mathvariant minsize maxsize lspace rspace displaystyle scriptlevel movablelimits",
    )
)


class _Renderer(RendererHTML):
    """Renders texts and code so that hidden characters are visible; escapes everything else."""

    def text(self, tokens: Sequence[Token], idx: int, *_: object) -> str:
        """Return the HTML of a text."""
        return _shown(tokens[idx].content)

    def code_inline(self, tokens: Sequence[Token], idx: int, *_: object) -> str:
        """Return the HTML of code in a line."""
        return f"<code>{_shown(tokens[idx].content)}</code>"

    def code_block(self, tokens: Sequence[Token], idx: int, *_: object) -> str:
        """Return the HTML of indented code."""
        return f"<pre><code>{_shown(tokens[idx].content)}</code></pre>\n"

    def fence(self, tokens: Sequence[Token], idx: int, *_: object) -> str:
        """Return the HTML of fenced code, with the name of its language as text."""
        info = _shown(tokens[idx].info.strip())
        title = f'<span class="lang">{info}</span>' if info else ""
        return f"<pre>{title}<code>{_shown(tokens[idx].content)}</code></pre>\n"

    def formula(self, tokens: Sequence[Token], idx: int, *_: object) -> str:
        """Return the HTML of a formula."""
        return _formula(tokens[idx].content, block=bool(tokens[idx].block))


def formatted(text: str, mark: Span | None = None) -> Markup:
    """Return a text as HTML made from its Markdown.

    Args:
        text: Any text.
        mark: First character of the marked part and the one after it. It is not marked if Markdown tears it apart.
    """
    if len(text) > MAX_CHARACTERS:
        return Markup("<pre>{}</pre>").format(as_html(text))
    # A private-use character is shown by its code point, before the marks of this module come in.
    text, mark = _without_private(text, mark)
    if mark is not None and mark[0] < mark[1] <= len(text):
        start, end = mark
        text = f"{text[:start]}{_OPEN}{text[start:end]}{_CLOSE}{text[end:]}"
    return Markup(_parser().render(text))


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 12}, renderer_cls=_Renderer)
    parser.enable("table")
    parser.disable(["link", "image", "autolink", "reference", "html_inline", "html_block"])
    parser.inline.ruler.before("escape", "formula", _read_formula)
    return parser


def _read_formula(state: StateInline, silent: bool) -> bool:
    """Inline rule of markdown-it: a formula between one of `_DELIMITERS`."""
    text, start = state.src, state.pos
    for opening, closing in _DELIMITERS:
        if not text.startswith(opening, start):
            continue
        begin = start + len(opening)
        stop = text.find(closing, begin, begin + MAX_FORMULA)
        content = text[begin:stop]
        # A dollar sign before a blank or a digit's price is money: the rule of Pandoc.
        money = opening == "$" and (
            content != content.strip() or text[stop + 1 : stop + 2].isdigit() or "\n\n" in content
        )
        if stop < 0 or not content.strip() or money:
            continue
        if not silent:
            token = state.push("formula", "", 0)
            token.content, token.block = content, opening in ("\\[", "$$")
        state.pos = stop + len(closing)
        return True
    return False


def _formula(source: str, *, block: bool) -> str:
    plain = source.replace(_OPEN, "").replace(_CLOSE, "")
    mathml = None if any(map(is_hidden, plain)) else _mathml(plain, block)
    if mathml is None:
        return f'<code class="tex">{_shown(source)}</code>'
    if plain != source:
        return f'<mark id="read">{mathml}</mark>'
    return mathml


@lru_cache(maxsize=512)
def _mathml(source: str, block: bool) -> str | None:
    """Return a formula as MathML with only known elements and attributes; None if it cannot be converted."""
    if find_spec("latex2mathml") is None:
        return None
    from latex2mathml import exceptions  # noqa: PLC0415 - need not be installed
    from latex2mathml.converter import convert  # noqa: PLC0415

    own: list[type[Exception]] = [
        kind for kind in vars(exceptions).values() if isinstance(kind, type)
    ]
    # The others are raised for formulas that its parser did not foresee.
    problems: tuple[type[Exception], ...] = (
        *own,
        *(LookupError, ValueError, TypeError, AttributeError, RuntimeError, SyntaxError),
    )
    try:
        tree = ElementTree.fromstring(convert(source, display="block" if block else "inline"))
    except problems:
        return None
    return _element(tree) if _known(tree) else None


def _known(tree: ElementTree.Element) -> bool:
    return all(node.tag.removeprefix(f"{{{_MATHML}}}") in _ELEMENTS for node in tree.iter())


def _element(node: ElementTree.Element) -> str:
    name = node.tag.removeprefix(f"{{{_MATHML}}}")
    attributes = Markup("").join(
        Markup(' {}="{}"').format(key, value)
        for key, value in node.attrib.items()
        if key in _ATTRIBUTES
    )
    inside = str(as_html(node.text or "")) + "".join(
        _element(child) + str(as_html(child.tail or "")) for child in node
    )
    return f"<{name}{attributes}>{inside}</{name}>"


def _shown(text: str) -> str:
    """Return a text as HTML; the marked part is marked if all of it is in this text."""
    parts: list[str] = []
    at = 0
    for found in _MARKED.finditer(text):
        parts += [_bare(text[at : found.start()]), f'<mark id="read">{_bare(found[1])}</mark>']
        at = found.end()
    return "".join([*parts, _bare(text[at:])])


def _bare(text: str) -> str:
    return str(as_html(text.replace(_OPEN, "").replace(_CLOSE, "")))


def _without_private(text: str, mark: Span | None) -> tuple[str, Span | None]:
    """Return a text without the characters that mark a part, and the new place of the part."""
    if _OPEN not in text and _CLOSE not in text:
        return text, mark

    def length(end: int) -> int:
        return len(_coded(text[:end]))

    return _coded(text), None if mark is None else (length(mark[0]), length(mark[1]))


def _coded(text: str) -> str:
    return text.replace(_OPEN, "(U+E000)").replace(_CLOSE, "(U+E001)")
