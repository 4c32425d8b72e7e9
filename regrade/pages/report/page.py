"""The page of a report, as one HTML file or as markdown for a pull request or a chat."""

import shlex
from collections.abc import Iterator, Sequence

from regrade.answers.figures import figures_in
from regrade.comparing.gate_report import GateReport
from regrade.comparing.text import COLUMNS, comparison_row, remarks
from regrade.comparing.verdict_text import opening
from regrade.pages.report.gathering import WORST_SUBSETS, Report, ReportedSet
from regrade.pages.report.plots import plots_of
from regrade.pages.viewer.library import StoredSet
from regrade.pages.viewer.provenance import provenance, shown_place
from regrade.pages.viewer.templating import interval_of, style_sheet
from regrade.records.rubrics.facts import answers_per_question
from regrade.results.results import flat_metrics
from regrade.settings.project_folder import VERSION
from regrade.settings.view_address import comparison_address, view_address
from regrade.stats.numbers import average_text, repeats_text
from regrade.text.blocks import (
    Badge,
    Block,
    Code,
    Commands,
    Fold,
    Heading,
    Items,
    Line,
    Link,
    Strong,
    Table,
    Text,
    with_code,
)
from regrade.text.html import html_page
from regrade.text.markdown import markdown

POSTED_CHARACTERS = 59_900
"""Longest page in markdown, without its last remark: GitHub refuses comments above 65,536 characters."""
_TEXT = ("model", "benchmark", "scorer", "by people's labels", "with repeats", "subset")
_RESULTS = (
    *("model", "benchmark", "accuracy", "95 % interval", "n", "scorer", "by people's labels"),
    *("with repeats", "unparsed", "truncated", "failed"),
)
_STYLE = """
main > h2 { font-size: 15px; text-transform: none; letter-spacing: 0; color: var(--fg); margin: 26px 0 6px; }
td:first-child { overflow-wrap: anywhere; min-width: 150px; } td.num { font-size: 13px; } td .ci { min-width: 90px; }
img { max-width: 100%; background: #fff; border-radius: 6px; }
main > details { border: 1px solid var(--line); border-radius: 6px; padding: 4px 10px; margin: 0 0 6px; }
summary { overflow-wrap: anywhere; } main > details[open] > summary { margin-bottom: 6px; }
@media (max-width: 640px) {
  .scroll thead { display: none; } .scroll tr { display: flex; flex-wrap: wrap; gap: 2px 12px; padding: 6px 0; border-bottom: 1px solid var(--line); }
  .scroll td, td:first-child { display: block; padding: 0; min-width: 0; text-align: left; } .scroll td:first-child { flex: 1 0 100%; }
  .scroll td:empty { display: none; }
}
.left { color: var(--dim); font-size: 12px; display: block; } p { margin: 4px 0; }
li code { overflow-wrap: anywhere; color: inherit; } ul { margin: 4px 0; padding-left: 18px; }
"""


def html_report(report: Report, verdict: GateReport | None = None) -> str:
    """Return the report as an HTML page, which begins with a gate's verdict if there is one."""
    title = report.title if verdict is None else f"{verdict.verdict}: {report.title}"
    return html_page(title, list(_blocks(report, verdict=verdict)), style_sheet() + _STYLE)


def markdown_report(report: Report) -> str:
    """Return the report as markdown for a pull request or a chat: short enough for both, and without plots, which neither shows."""
    return markdown(list(_blocks(report, plots=False)), POSTED_CHARACTERS, width=None)


def _blocks(
    report: Report, *, plots: bool = True, verdict: GateReport | None = None
) -> Iterator[Block]:
    if verdict is None:
        yield Heading(report.title, 1)
    else:
        yield from opening(verdict)
    place, made = shown_place(report.repository.uri), f"{report.made_at:%Y-%m-%d %H:%M} UTC"
    yield Line(f"{place} at {report.revision} · made {made} by regrade {VERSION}", "note")
    for error in report.left_out:
        path = error.path.removeprefix(f"{report.repository.uri}/")
        yield Line(f"An answer set is left out: '{path}' is damaged: {error.problem}", "doubt")
    yield Heading("Results")
    yield Table(_RESULTS, [_result(item, report) for item in report.sets], _TEXT)
    yield Line(
        "± is one standard error. Unparsed answers count as wrong; failed ones are missing.", "note"
    )
    if report.request.base is not None:
        yield Heading(f"What changed against {report.request.base}")
        yield from _changes(report.sets, judged=verdict is not None)
    if plots and (drawn := list(plots_of(report))):
        yield Heading("Plots")
        yield from drawn
    if worst := [item for item in report.sets if item.subsets]:
        yield Heading("Worst subsets")
        yield from (_worst(item, first=item is worst[0]) for item in worst)
    yield Heading("Seconds and tokens")
    yield _figures(report.sets)
    yield Heading("Versions and commits")
    every = all_sets(report)
    for stored in every:
        facts = [(f"{name}: ", Code(value)) for name, value in provenance(stored, stored.headline)]
        yield Fold(stored.title, [Items(facts)], open=len(every) < 3)
    yield Heading("Read all answers")
    yield Commands([_view_command(report, item) for item in report.sets])
    links = [_viewer_address(report, item) for item in report.sets]
    yield Items([Link(link, link) for link in links if link is not None])
    if report.examples:  # last: markdown leaves out those that are too much for a page
        yield Heading("Answers")
        yield Line(
            f"{len(report.examples):,} of {report.available:,} flipped, wrong and unparsed answers, spread evenly over the "
            "questions. Hidden characters are shown by their code points; on an HTML page, what the scorer read is marked.",
            "note",
        )
        yield from report.examples


def _result(item: ReportedSet, report: Report) -> tuple[Text, ...]:
    benchmark, manifest, metrics = item.stored.benchmark, item.stored.manifest, item.stored.metrics
    apart = ", ".join(f"{name} {value}" for name, value in item.apart.items())
    model = (
        Strong(item.stored.model),
        " ",
        Code(item.stored.id[:8]),
        f" ({apart})" if apart else "",
    )
    if metrics is None or item.scoring is None:
        by = f" by {report.request.scorer}" if report.request.scorer else ""
        unscored = with_code(f"not scored{by}: {manifest.to_score()}")
        return model, benchmark, "", "", "", unscored, *("",) * 5
    expected = f" of {manifest.expected:,}: incomplete" * (manifest.rows < manifest.expected)
    repeats = answers_per_question(manifest.specification)
    mean = average_text(metrics.accuracy, metrics.accuracy_stderr, repeats, 2, item.scale)
    return (
        model,
        benchmark,
        (Strong(mean),),
        (interval_of(metrics, item.scale, 2),),
        f"{metrics.n:,}{expected}",
        (item.scoring.title, *((" ", Badge("stale")) if item.stored.is_stale else ())),
        item.calibration,
        repeats_text(flat_metrics(item.scoring.summary), repeats),
        f"{metrics.unparsed:,}",
        f"{metrics.truncated:,}",
        f"{metrics.failed:,}",
    )


def _changes(sets: Sequence[ReportedSet], *, judged: bool) -> Iterator[Block]:
    """Yield the comparisons; without their table, which has another interval, below the one of a verdict."""
    compared = [(item, item.comparison) for item in sets if item.comparison is not None]
    if not judged:
        rows = [(item.stored.model, *comparison_row(comparison)) for item, comparison in compared]
        yield Table(("model", *COLUMNS), rows, _TEXT)
        yield Line(
            "Paired by question; differences are in percentage points, the candidate's minus the baseline's. could show: the "
            "smallest true drop that this number of questions detects with a probability of 80 %.",
            "note",
        )
    for item, comparison in compared:
        title = f"{item.stored.title}: scorer, settings and notes"
        yield Fold(title, [Items(list(remarks(comparison)))])
    for item in sets:
        if item.refusal is not None:
            yield Line(f"{item.stored.title}: not compared. {item.refusal}", "doubt")


def _worst(item: ReportedSet, *, first: bool) -> Fold:
    shown = item.subsets[:WORST_SUBSETS]
    rows = [
        (
            subset.name or "(no name)",
            item.scale.mean_text(subset.metrics.accuracy, subset.metrics.accuracy_stderr, 2),
            (interval_of(subset.metrics, item.scale, 2),),
            f"{subset.metrics.n:,}",
        )
        for subset in shown
    ]
    table = Table(("subset", "accuracy", "95 % interval", "n"), rows)
    return Fold(f"{item.stored.title}: {len(shown)} of {len(item.subsets):,}", [table], open=first)


def _figures(sets: Sequence[ReportedSet]) -> Table:
    figures = figures_in("report")
    rows = [
        (
            *(item.stored.model, item.stored.benchmark),
            *(figure.text(item.stored.figures[figure.name], unknown="-") for figure in figures),
        )
        for item in sets
    ]
    return Table(("model", "benchmark", *(figure.heading for figure in figures)), rows, _TEXT)


def all_sets(report: Report) -> list[StoredSet]:
    """Return the answer sets of a report and their baselines, each once."""
    sets = [stored for item in report.sets for stored in (item.stored, item.base) if stored]
    return list({(stored.answers.repository.uri, stored.id): stored for stored in sets}.values())


def _view_command(report: Report, item: ReportedSet) -> str:
    """Return the shell command that opens the viewer at an answer set, or at its comparison, at the report's commit.

    A folder is named as seen from the one above it.
    """
    uri = report.repository.uri
    words = ["regrade", "view", uri if "://" in uri else f"./{shown_place(uri)}", item.stored.id]
    if item.base is not None and item.base.answers.repository.uri == uri and item.pair is not None:
        words += ["--baseline", item.base.id]
    return shlex.join([*words, "--at", report.revision])


def _viewer_address(report: Report, item: ReportedSet) -> str | None:
    """Return the address of the same place in the team's viewer; None as in `view_address`."""
    answers = item.stored.answers
    if item.base is not None and item.pair is not None:
        uris = item.base.answers.repository.uri, answers.repository.uri
        return comparison_address(uris, item.base.id, item.stored.id, revision=report.revision)
    return view_address(answers.repository.uri, item.stored.id, revision=report.revision)
