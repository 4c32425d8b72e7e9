"""A report as one page of markdown, for a pull request or a chat; names and texts are escaped."""

import html
from collections.abc import Iterator, Sequence

from regrade.answers.figures import Figure, figures_in
from regrade.comparing.text import COLUMNS, comparison_row, remarks
from regrade.pages.report.examples import Cut, Example, Shown
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
from regrade.pages.viewer.visible import is_hidden
from regrade.records.rubrics.facts import answers_per_question
from regrade.settings.project_folder import VERSION
from regrade.text.layout import Table
from regrade.text.markdown import escape, markdown
from regrade.text.numbers import average_text

MAX_CHARACTERS = 700_000
"""Longest page without its plots: GitHub's job summaries accept 1 MiB. Answers beyond it are only counted."""
_RESULTS = (
    "model",
    "benchmark",
    "scorer",
    "accuracy",
    "95 % interval",
    "n",
    "unparsed",
    "truncated",
    "failed",
)
_TEXT = ("model", "benchmark", "scorer", "subset")


def markdown_report(report: Report, *, plots: bool = True) -> str:
    """Return the report as markdown.

    Args:
        report: Content.
        plots: Include the plots as `data:` images, which GitHub does not show.
    """
    lines = [f"# {escape(report.title)}", ""]
    made = f"{report.made_at:%Y-%m-%d %H:%M} UTC by regrade {VERSION}"
    lines += [
        f"{escape(shown_place(report.repository.uri))} at `{report.revision}` · made {made}",
        "",
    ]
    lines += _table(_RESULTS, [_result(item) for item in report.sets])
    lines += [
        "",
        "± is one standard error. Unparsed answers count as wrong; failed ones are missing.",
        "",
    ]
    lines += _changes(report)
    if plots:
        for plot in plots_of(report):
            lines += [f"![{escape(plot.text)}]({plot.address})", ""]
    lines += _worst(report)
    lines += ["## Seconds and tokens", ""]
    figures = figures_in("report")
    columns = ("model", "benchmark", *(figure.heading for figure in figures))
    lines += _table(columns, [_figures(item, figures) for item in report.sets])
    lines += ["", *_examples(report, sum(map(len, lines)))]
    lines += ["## Versions and commits", ""]
    for answer_set in all_made(report):
        lines += [f"**{escape(made_title(answer_set))}**", ""]
        lines += [f"- {name}: {escape(value)}" for name, value in provenance(answer_set)]
        lines.append("")
    lines += ["## Read all answers", ""]
    lines += [f"    {_visible(view_command(report, item))}" for item in report.sets]
    links = [viewer_address(report, item) for item in report.sets]
    lines += ["", *(f"- <{link}>" for link in links if link is not None), ""]
    return "\n".join(lines)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return markdown([Table(columns, rows, _TEXT)], width=None).splitlines()


def _title(item: ReportedSet) -> str:
    return f"{item.specification.benchmark.name} · {item.model}"


def _result(item: ReportedSet) -> tuple[str, ...]:
    spec, manifest, metrics = item.specification, item.stored.answers.manifest, item.metrics
    apart = ", ".join(f"{name} {value}" for name, value in item.apart.items())
    model = f"{item.model} {item.stored.id[:8]}" + (f" ({apart})" if apart else "")
    if metrics is None or item.scoring is None:
        return model, spec.benchmark.name, "not scored", *("-",) * 6
    expected = f" (of {manifest.expected:,}: incomplete)" * (manifest.rows < manifest.expected)
    scale, repeats = item.scale, answers_per_question(spec)
    low, high = scale.text(metrics.accuracy_low, 2), scale.text(metrics.accuracy_high, 2)
    mean = average_text(metrics.accuracy, metrics.accuracy_stderr, repeats, 2, scale)
    return (
        model,
        spec.benchmark.name,
        item.scoring.title + (", stale" if item.stale else ""),
        mean + (f" ({item.calibration})" if item.calibration else ""),
        f"{low} to {high}",
        f"{metrics.n:,}{expected}",
        f"{metrics.unparsed:,}",
        f"{metrics.truncated:,}",
        f"{metrics.failed:,}",
    )


def _figures(item: ReportedSet, figures: Sequence[Figure]) -> tuple[str, ...]:
    cells = (figure.text(item.figures[figure.name], unknown="-") for figure in figures)
    return item.model, item.specification.benchmark.name, *cells


def _changes(report: Report) -> Iterator[str]:
    base = report.request.base
    if base is None:
        return
    yield from (f"## What changed against {escape(base)}", "")
    rows = [
        (item.model, *comparison_row(item.comparison))
        for item in report.sets
        if item.comparison is not None
    ]
    yield from _table(("model", *COLUMNS), rows)
    yield from ("", "Paired by question; differences are in percentage points.", "")
    for item in report.sets:
        if item.refusal is not None:
            yield f"- {escape(_title(item))}: not compared. {escape(item.refusal)}"
        if item.comparison is not None:
            yield from (f"- {escape(text)}" for text in remarks(item.comparison))
    yield ""


def _worst(report: Report) -> Iterator[str]:
    for item in report.sets:
        if not item.subsets:
            continue
        yield from (f"## Worst subsets: {escape(_title(item))}", "")
        rows = [
            (
                subset.name or "(no name)",
                item.scale.mean_text(subset.metrics.accuracy, subset.metrics.accuracy_stderr, 2),
                f"{subset.metrics.n:,}",
            )
            for subset in item.subsets[:WORST_SUBSETS]
        ]
        yield from _table(("subset", "accuracy", "n"), rows)
        yield ""


def _examples(report: Report, size: int) -> Iterator[str]:
    if not report.examples:
        return
    yield from ("## Answers", "")
    count = len(report.examples)
    yield f"{count:,} of {report.available:,} flipped, wrong and unparsed answers."
    yield ""
    for number, example in enumerate(report.examples):
        shown = list(_example(example))
        size += sum(map(len, shown))
        if size > MAX_CHARACTERS:
            yield from (f"And {count - number:,} more: `regrade report FILE.html` shows them.", "")
            return
        yield from shown


def _example(example: Example) -> Iterator[str]:
    read = " → ".join(_short(answer.extracted, "nothing") for answer in example.answers)
    place = f"{example.benchmark} {example.number}"
    parts = [example.kind, place, example.subset, f"read: {read}"]
    parts.append(f"target: {_short(example.target, 'not known')}")
    # No markdown: a line that begins with a block of HTML is HTML to its end.
    lines = (" ".join(_visible(part).split()) for part in parts if part)
    summary = " · ".join(html.escape(line, quote=False) for line in lines)
    yield from (f"<details><summary>{summary}</summary>", "")
    if example.question is not None:
        yield from _block(
            "end of the prompt" if example.is_prompt else "question", example.question
        )
    elif example.withheld:
        yield from ("This question must not be published.", "")
    for answer in example.answers:
        yield from _answer(answer)
    yield f"sample {escape(example.sample_id)} of answer set `{example.answer_set_id}`"
    if example.address is not None:
        yield f", [in the viewer]({example.address})"
    yield from ("", "</details>", "")


def _answer(answer: Shown) -> Iterator[str]:
    heading = f"{answer.model}, {answer.verdict}"
    if answer.error is not None:
        yield from _block(f"{heading}, error", answer.error)
    if answer.answer is not None:
        yield from _block(heading, answer.answer)
    if answer.letters:
        named = (
            f"{letter.letter} {letter.logprob:.3f}"
            for letter in answer.letters
            if letter.logprob is not None
        )
        yield from (f"{escape(heading)}: log-probabilities {', '.join(named)}", "")


def _block(heading: str, cut: Cut) -> Iterator[str]:
    """Yield a heading, and a text as indented code, which the text cannot end."""
    yield from (f"{escape(heading)}:", "")
    for piece in cut.pieces:
        if piece.left_out:
            yield f"    … {piece.left_out:,} characters left out …"
        yield from (f"    {line}" for line in _visible(piece.text).split("\n"))
    if cut.left_out:
        yield f"    … {cut.left_out:,} characters left out …"
    yield ""


def _short(text: str | None, otherwise: str) -> str:
    if text is None:
        return otherwise
    line = " ".join(_visible(text).split())
    return line if len(line) <= 60 else f"{line[:60]}…"


def _visible(text: str) -> str:
    """Return a text whose hidden characters are shown by their code points, as the viewer shows them."""
    return "".join(f"[U+{ord(c):04X}]" if is_hidden(c) else c for c in text)
