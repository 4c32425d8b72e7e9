"""Blocks as an HTML page of one file: no script, nothing from elsewhere, and every text is only text."""

import base64
import hashlib
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from regrade.text import blocks as b
from regrade.text.hidden import as_html
from regrade.text.text import visible

_PAGE = Markup("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main id="main">
{main}
</main>
</body>
</html>""")
_CLASSES: dict[b.Tone, str] = {"doubt": "warning", "bad": "error", "aside": "dim"}
"""Classes of the viewer's style; the others are named like their tone."""


def html_page(title: str, blocks: Sequence[b.Block], style: str) -> str:
    """Return blocks as a page, whose content policy allows only its own style and images in the page.

    Args:
        title: Title of the window.
        blocks: Content.
        style: Style sheet, trusted.
    """
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    return _PAGE.format(
        policy=policy, title=visible(title), style=Markup(style), main=_joined(blocks)
    )


def drawn(interval: b.Interval) -> Markup:
    """Return a mean and its interval as a drawing; a mean without an interval as a point."""
    bars: list[tuple[object, ...]] = [
        ("axis", 0, 6.5, 100, 1),
        ("fill", 0, 3, 100 * interval.at, 8),
    ]
    if interval.low is not None and interval.high is not None:
        width = max(100 * (interval.high - interval.low), 0.6)
        bars += [("range", 100 * interval.low, 5.5, width, 3)]
    bars += [("point", min(max(100 * interval.at - 0.6, 0), 98.8), 1, 1.2, 12)]
    bar = Markup('<rect class="{}" x="{:.2f}" y="{}" width="{:.2f}" height="{}"/>')
    return Markup(
        '<svg class="ci" viewBox="0 0 100 14" preserveAspectRatio="none" role="img" '
        'aria-label="{:.1f} % of the scale">{}</svg>'
    ).format(100 * interval.at, Markup("").join(bar.format(*given) for given in bars))


def badge(text: str) -> Markup:
    """Return a verdict or a state with its colour."""
    return Markup('<span class="verdict {}">{}</span>').format(text.replace(" ", "-"), text)


def _joined(blocks: Iterable[b.Block]) -> Markup:
    return Markup("\n").join(filter(None, map(_block, blocks)))


def _block(block: b.Block) -> Markup:
    match block:
        case b.Heading():
            return _tagged(f"h{block.level}", _inline(block.text), block.tone)
        case b.Line():
            return _tagged("p", _inline(block.text), block.tone)
        case b.Items() if block.lines:
            lines = Markup("").join(_tagged("li", _inline(line)) for line in block.lines)
            return _tagged("ul", lines, block.tone)
        case b.Table() if block.rows:
            return _table(block.filled())
        case b.Quote():
            title = _tagged("p", _inline(block.title)) if block.title else ""
            shown = Markup('<pre class="text {}" dir="auto">{}</pre>')
            return title + shown.format(_CLASSES.get(block.tone, ""), _inline(block.text))
        case b.Commands() if block.lines:
            return Markup('<pre class="text">{}</pre>').format(as_html("\n".join(block.lines)))
        case b.Plot():
            return Markup('<p><img src="{}" alt="{}"></p>').format(
                block.address, visible(block.title)
            )
        case b.Fold():
            whole = Markup("<details{}><summary>{}</summary>\n{}</details>")
            return whole.format(" open" * block.open, _inline(block.title), _joined(block.blocks))
        case b.SideBySide():
            sections = (_tagged("section", _joined(column)) for column in block.columns)
            return Markup('<div class="columns">{}</div>').format(Markup("").join(sections))
        case b.Details():
            return _joined(block.blocks)
    return Markup("")


def _tagged(tag: str, inside: Markup, tone: b.Tone = "") -> Markup:
    named = Markup(' class="{}"').format(_CLASSES.get(tone, tone)) if tone else ""
    return Markup("<{0}{1}>{2}</{0}>").format(tag, named, inside)


def _table(table: b.Table) -> Markup:
    kinds = [
        "" if name in (table.text or table.columns[:1]) else Markup(' class="num"')
        for name in table.columns
    ]
    head = Markup("").join(
        Markup("<th{}>{}</th>").format(kind, as_html(name))
        for kind, name in zip(kinds, table.columns, strict=True)
    )
    rows = Markup("\n").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup('<td{} data-label="{}">{}</td>').format(kind, visible(name), _inline(cell))
                for kind, name, cell in zip(kinds, table.columns, row, strict=True)
            )
        )
        for row in table.rows
    )
    whole = (
        '<div class="scroll"><table><thead><tr>{}</tr></thead><tbody>\n{}\n</tbody></table></div>'
    )
    return Markup(whole).format(head, rows)


def _inline(text: b.Text) -> Markup:
    return Markup("").join(map(_part, b.parts(text)))


def _part(part: b.Words) -> Markup:
    match part:
        case str():
            return as_html(part)
        case b.Strong():
            return Markup("<b>{}</b>").format(as_html(part.text))
        case b.Highlight():
            return Markup("<mark>{}</mark>").format(as_html(part.text))
        case b.Picture() if part.address.startswith("data:image/"):
            return Markup('<img src="{}" alt="{}">').format(part.address, visible(part.text))
        case b.Gap():
            return Markup('<span class="left">{}</span>').format(as_html(part.text.strip()))
        case b.Badge():
            return badge(part.text)
        case b.Interval():
            return Markup('{}<span class="scorer">{}</span>').format(drawn(part), part.text)
        case b.Link() if part.address and part.address.startswith(("https://", "http://")):
            return Markup('<a href="{}">{}</a>').format(part.address, as_html(part.text))
    return Markup("<code>{}</code>").format(as_html(part.text))
