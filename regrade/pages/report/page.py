"""A report as one HTML file: no script, nothing from elsewhere, and every text of an answer is only text."""

import base64
import hashlib
from importlib.resources import files

from markupsafe import Markup

from regrade.answers.figures import figures_in
from regrade.comparing.text import COLUMNS, comparison_row, remarks
from regrade.pages.report.examples import Cut
from regrade.pages.report.gathering import WORST_SUBSETS, Report
from regrade.pages.report.plots import plots_of
from regrade.pages.report.provenance import (
    all_made,
    made_title,
    provenance,
    shown_place,
    view_command,
    viewer_address,
)
from regrade.pages.viewer.templating import page_templates
from regrade.pages.viewer.visible import marked, one_line
from regrade.records.rubrics.facts import answers_per_question
from regrade.settings.project_folder import VERSION
from regrade.stats.metrics import average_name, further_averages

_EXTRA_STYLE = """
h2.part { font-size: 15px; text-transform: none; letter-spacing: 0; color: var(--fg); margin: 26px 0 6px; }
td.path, dd.path { overflow-wrap: anywhere; } td.path { min-width: 150px; } td.num { font-size: 13px; } img { max-width: 100%; background: #fff; border-radius: 6px; }
.example { border: 1px solid var(--line); border-radius: 6px; padding: 4px 10px; margin: 0 0 6px; }
.example summary .pair { margin-left: 14px; }
.example > summary { overflow-wrap: anywhere; } .example[open] > summary { margin-bottom: 6px; }
.left { color: var(--dim); font-size: 12px; display: block; } .about { color: var(--dim); }
.made { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 1px 12px; margin: 4px 0 10px; font-size: 12.5px; }
.made dt { color: var(--dim); } .made dd { margin: 0; font-family: var(--mono); overflow-wrap: anywhere; }
"""


def html_report(report: Report) -> str:
    """Return the report as an HTML page.

    Its content policy allows only its own style and images in the page: no script, no form, no request.
    """
    style = (
        files("regrade.pages.viewer").joinpath("static/style.css").read_text("utf-8") + _EXTRA_STYLE
    )
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    page = page_templates("regrade.pages.report")
    page.filters |= {"cut": cut_html, "line": _line}
    return page.get_template("report.html").render(
        report=report,
        figures=figures_in("report"),
        where=shown_place(report.repository.uri),
        style=Markup(style),
        policy=policy,
        plots=list(plots_of(report)),
        version=VERSION,
        worst=WORST_SUBSETS,
        average_name=average_name,
        answers_per_question=answers_per_question,
        averages=further_averages,
        comparison_columns=COLUMNS,
        comparison_row=comparison_row,
        remarks=remarks,
        all_made=all_made(report),
        provenance=provenance,
        made_title=made_title,
        view_command=lambda item: view_command(report, item),
        address=lambda item: viewer_address(report, item),
    )


def cut_html(cut: Cut) -> Markup:
    """Return a text as HTML, with the part that the scorer read marked, and a note for what was left out."""
    parts: list[Markup] = []
    for piece in cut.pieces:
        parts += [_left_out(piece.left_out), marked(piece.text, piece.mark)]
    return Markup("").join([*parts, _left_out(cut.left_out)])


def _left_out(characters: int) -> Markup:
    if not characters:
        return Markup("")
    return Markup('<span class="left">… {} characters left out …</span>').format(f"{characters:,}")


def _line(text: str) -> Markup:
    return one_line(text, 60)
