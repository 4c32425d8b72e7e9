"""Charts have one style: its colours are said in `regrade/stats/drawing.py`, and plots and pages take them from there."""

import re
from pathlib import Path

from regrade.pages.viewer.templating import style_sheet
from regrade.stats import drawing
from regrade.stats.drawing import BAR, COLOURS, draw_accuracies, draw_changes, style
from tests.command_line import ROOT

HEX = re.compile(r"#[0-9a-fA-F]{3,8}\b")
QUOTED = re.compile(r"[\"'](#[0-9a-fA-F]{3,8})[\"']")
NAMED = re.compile(r"\b(?:e?color|edgecolor|facecolor|cmap|palette)=[\"'](?!none[\"'])")


def test_no_other_file_defines_a_colour_of_a_chart():
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for folder in ("regrade", "flows", "tasks", "perf", "infra", "examples")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != Path(drawing.__file__)
        for line in path.read_text().splitlines()
        if QUOTED.search(line) or NAMED.search(line)
    ]
    assert found == []


def test_bars_of_pages_have_the_colours_of_plots():
    style_of_pages = style_sheet()
    bars = re.findall(r"--bar: (#\w+);", style_of_pages)
    assert bars == [BAR, drawing.BAR_ON_DARK]
    assert set(bars) <= set(COLOURS)
    drawn = [line for line in style_of_pages.splitlines() if line.startswith(".ci")]
    assert ".ci .fill, .ci .point { fill: var(--bar); }" in " ".join(drawn)
    assert not HEX.findall(" ".join(drawn))


def test_a_page_names_colours_as_variables_only():
    rules = re.sub(r"--[\w-]+: #\w+;", "", style_sheet())
    assert HEX.findall(rules) == []


def test_plots_share_the_labels_of_percentages_and_the_form_of_intervals():
    from matplotlib.figure import Figure

    bars = [drawing.Bar("sums", 0.5, 0.4, 0.6)]
    figure = Figure()
    shares, changes = figure.subplots(1, 2)
    draw_accuracies(shares, bars)
    draw_changes(changes, [drawing.Change("sums", 4, -0.5, moved=True)], "changes")
    assert shares.xaxis.get_major_formatter()(50) == "50 %"
    assert shares.patches[0].get_facecolor() == _rgba(BAR)
    assert changes.patches[0].get_facecolor() == _rgba(drawing.DROP)


def test_a_style_has_no_frame():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    style(axes, "title")
    assert not axes.spines["top"].get_visible()
    assert axes.get_title(loc="left") == "title"


def _rgba(colour: str) -> tuple[float, float, float, float]:
    from matplotlib.colors import to_rgba

    return to_rgba(colour)
