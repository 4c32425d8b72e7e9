"""The page of a report, as one HTML file or as markdown for a pull request or a chat."""

from collections.abc import Iterator, Sequence
from importlib.resources import files

from regrade.answers.figures import figures_in
from regrade.comparing.gate_report import GateReport
from regrade.comparing.text import COLUMNS, comparison_row, remarks
from regrade.comparing.verdict_text import opening
from regrade.pages.report.examples import Example, Shown
from regrade.pages.report.gathering import WORST_SUBSETS, Report, ReportedSet
from regrade.pages.report.plots import plots_of
from regrade.pages.report.provenance import (
    all_made,
    made_title,
    provenance,
    shown_place,
    view_command,
    viewer_address,
)
from regrade.records.rubrics.facts import answers_per_question
from regrade.results.results import flat_metrics
from regrade.settings.project_folder import VERSION
from regrade.text.blocks import (
    Badge,
    Block,
    Code,
    Columns,
    Commands,
    Fold,
    Heading,
    Items,
    Line,
    Link,
    Quote,
    Strong,
    Table,
    Text,
    Words,
)
from regrade.text.html import html_page
from regrade.text.markdown import markdown
from regrade.text.numbers import average_text, interval_of, repeats_text

_TEXT = ("model", "benchmark", "scorer", "by people's labels", "with repeats", "subset")
_RESULTS = (
    *("model", "benchmark", "scorer", "accuracy", "by people's labels", "95 % interval", "n"),
    *("with repeats", "unparsed", "truncated", "failed"),
)
_STYLE = """
main > h2 { font-size: 15px; text-transform: none; letter-spacing: 0; color: var(--fg); margin: 26px 0 6px; }
td:first-child { overflow-wrap: anywhere; min-width: 150px; } td.num { font-size: 13px; } td .ci { min-width: 90px; }
img { max-width: 100%; background: #fff; border-radius: 6px; }
main > details { border: 1px solid var(--line); border-radius: 6px; padding: 4px 10px; margin: 0 0 6px; }
summary { overflow-wrap: anywhere; } main > details[open] > summary { margin-bottom: 6px; }
.left { color: var(--dim); font-size: 12px; display: block; } p { margin: 4px 0; }
li code { overflow-wrap: anywhere; color: inherit; } ul { margin: 4px 0; padding-left: 18px; }
"""


def html_report(report: Report, verdict: GateReport | None = None) -> str:
    """Return the report as an HTML page, which begins with a gate's verdict if there is one."""
    style = files("regrade.pages.viewer").joinpath("static/style.css").read_text("utf-8")
    title = report.title if verdict is None else f"{verdict.verdict}: {report.title}"
    return html_page(title, list(_blocks(report, verdict=verdict)), style + _STYLE)


def markdown_report(report: Report, *, plots: bool = True) -> str:
    """Return the report as markdown.

    Args:
        report: Content.
        plots: Include the plots as `data:` images, which GitHub does not show.
    """
    return markdown(list(_blocks(report, plots=plots)), width=None)


def _blocks(
    report: Report, *, plots: bool = True, verdict: GateReport | None = None
) -> Iterator[Block]:
    if verdict is None:
        yield Heading(report.title, 1)
    else:
        yield from opening(verdict)
    place, made = shown_place(report.repository.uri), f"{report.made_at:%Y-%m-%d %H:%M} UTC"
    yield Line(f"{place} at {report.revision} · made {made} by regrade {VERSION}", "note")
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
    every = all_made(report)
    for answer_set in every:
        facts = [(f"{name}: ", Code(value)) for name, value in provenance(answer_set)]
        yield Fold(made_title(answer_set), [Items(facts)], open=len(every) < 3)
    yield Heading("Read all answers")
    yield Commands([view_command(report, item) for item in report.sets])
    links = [viewer_address(report, item) for item in report.sets]
    yield Items([Link(link, link) for link in links if link is not None])
    if report.examples:  # last: markdown leaves out those that are too much for a page
        yield Heading("Answers")
        yield Line(
            f"{len(report.examples):,} of {report.available:,} flipped, wrong and unparsed answers, spread evenly over the "
            "questions. Hidden characters are shown by their code points; on an HTML page, what the scorer read is marked.",
            "note",
        )
        yield from map(_example, report.examples)


def _title(item: ReportedSet) -> str:
    return f"{item.specification.benchmark.name} · {item.model}"


def _result(item: ReportedSet, report: Report) -> tuple[Text, ...]:
    spec, manifest, metrics = item.specification, item.stored.manifest, item.metrics
    apart = ", ".join(f"{name} {value}" for name, value in item.apart.items())
    model = (Strong(item.model), " ", Code(item.stored.id[:8]), f" ({apart})" if apart else "")
    if metrics is None or item.scoring is None:
        by = f" by {report.request.scorer}" if report.request.scorer else ""
        command = Code(f"regrade score --answer-set {item.stored.id}")
        return model, spec.benchmark.name, (f"not scored{by}: ", command), *("",) * 8
    expected = f" of {manifest.expected:,}: incomplete" * (manifest.rows < manifest.expected)
    repeats = answers_per_question(spec)
    mean = average_text(metrics.accuracy, metrics.accuracy_stderr, repeats, 2, item.scale)
    return (
        model,
        spec.benchmark.name,
        (item.scoring.title, *((" ", Badge("stale")) if item.stale else ())),
        (Strong(mean),),
        item.calibration,
        (interval_of(metrics, item.scale, 2),),
        f"{metrics.n:,}{expected}",
        repeats_text(flat_metrics(item.scoring.summary), repeats),
        f"{metrics.unparsed:,}",
        f"{metrics.truncated:,}",
        f"{metrics.failed:,}",
    )


def _changes(sets: Sequence[ReportedSet], *, judged: bool) -> Iterator[Block]:
    """Yield the comparisons; without their table, which has another interval, below the one of a verdict."""
    compared = [(item, item.comparison) for item in sets if item.comparison is not None]
    if not judged:
        rows = [(item.model, *comparison_row(comparison)) for item, comparison in compared]
        yield Table(("model", *COLUMNS), rows, _TEXT)
        yield Line(
            "Paired by question; differences are in percentage points, the candidate's minus the baseline's. could show: the "
            "smallest true drop that this number of questions detects with a probability of 80 %.",
            "note",
        )
    for item, comparison in compared:
        title = f"{_title(item)}: scorer, settings and notes"
        yield Fold(title, [Items(list(remarks(comparison)))])
    for item in sets:
        if item.refusal is not None:
            yield Line(f"{_title(item)}: not compared. {item.refusal}", "doubt")


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
    return Fold(f"{_title(item)}: {len(shown)} of {len(item.subsets):,}", [table], open=first)


def _figures(sets: Sequence[ReportedSet]) -> Table:
    figures = figures_in("report")
    rows = [
        (
            *(item.model, item.specification.benchmark.name),
            *(figure.text(item.figures[figure.name], unknown="-") for figure in figures),
        )
        for item in sets
    ]
    return Table(("model", "benchmark", *(figure.heading for figure in figures)), rows, _TEXT)


def _example(example: Example) -> Fold:
    read = " → ".join(_short(answer.extracted, "nothing") for answer in example.answers)
    repeat = f"repeat {example.repeat}" if example.repeat else ""
    place = " · ".join(
        filter(None, (f"{example.benchmark} {example.number}", example.subset, repeat))
    )
    target = _short(example.target, "not known")
    title = (Badge(example.kind), f" · {place} · read: ", Code(read), " · target: ", Code(target))
    if example.question is not None:
        asked: Block = Quote(
            "end of the prompt" if example.is_prompt else "question", example.question
        )
    elif example.withheld:
        asked = Line("This question must not be published.", "note")
    else:
        asked = Line("Neither question nor prompt is stored.", "note")
    answers = [list(_answer(answer)) for answer in example.answers]
    ids: tuple[Words, ...] = (
        *("sample ", Code(example.sample_id), " of answer set ", Code(example.answer_set_id)),
        *((" · ", Link("in the viewer", example.address)) if example.address else ()),
    )
    shown = [Columns(answers)] if len(answers) > 1 else answers[0]
    return Fold(title, [asked, *shown, Line(ids, "note")])


def _answer(answer: Shown) -> Iterator[Block]:
    yield Line((Strong(answer.model), " ", Badge(answer.verdict)))
    if answer.thought:
        yield Fold("thought", [Quote("", answer.thought)])
    if answer.error:
        yield Quote("", answer.error, "bad")
    if answer.answer:
        yield Quote("", answer.answer)
    if answer.letters:
        rows = [
            (
                *(letter.letter, letter.choice),
                "" if letter.logprob is None else f"{letter.logprob:.3f}",
                ", ".join(["target"] * letter.is_target + ["read"] * letter.is_read),
            )
            for letter in answer.letters
        ]
        yield Table(("", "choice", "log-probability", "is"), rows, ("", "choice", "is"))
    if not (answer.error or answer.answer or answer.letters):
        yield Line("There is no text.", "note")


def _short(text: str | None, otherwise: str) -> str:
    if text is None:
        return otherwise
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:60]}…"
