"""Pages of reference, made from the code when the site is built: commands, parameters, scorers, benchmarks, figures, exit codes."""

import contextlib
import inspect
import io
import os
import sys
import textwrap
from collections.abc import Iterator
from typing import get_args
from unittest import mock

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from regrade.answers.figures import FIGURES
from regrade.benchmarks import benchmark_cards
from regrade.cli.command_list import COMMANDS, GROUPS
from regrade.cli.commands import HELP_ALL, call, epilogue
from regrade.jobs.job import EvaluationJob, JudgeJob, ScoringJob
from regrade.processes.metrics_endpoint import METRICS
from regrade.records.rubrics.own import FieldHead, Head
from regrade.scorers import load_scorer, scorer_names
from regrade.settings import GateSettings, SamplingSettings, registry
from regrade.settings.suites import SUITES

SECTION = """## Reference

Made from the code when this site is built:

- [commands](reference/commands.md) with all options, examples and exit codes
- [parameters](reference/parameters.md) of a `--config` file, the forms and the notebook
- [scorers](reference/scorers.md), [benchmarks and suites](reference/benchmarks.md), [figures](reference/figures.md),
  [metrics for Prometheus](reference/metrics.md)
"""
_TITLES: dict[type[BaseModel], str] = {
    EvaluationJob: "evaluate, generate, and their flows",
    JudgeJob: "judge",
    ScoringJob: "score",
    GateSettings: "gate",
}
_WIDTH = "80"


def reference_pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    return {
        "commands": _commands(),
        "parameters": _parameters(),
        "scorers": _scorers(),
        "benchmarks": _benchmarks(),
        "figures": _figures(),
        "metrics": _metrics(),
    }


def help_of(command: str) -> str:
    """Return what `regrade COMMAND --help-all` prints."""
    out = io.StringIO()
    with mock.patch.dict(os.environ, COLUMNS=_WIDTH), contextlib.redirect_stdout(out):
        call([command, HELP_ALL])
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _commands() -> str:
    codes = [(name, _exit_codes(name)) for name in COMMANDS]
    usual = _exit_codes("completion")
    parts = ["# Commands", "## Exit codes", _table("command", "exit codes")]
    parts[-1] += _row("all others", usual)
    parts[-1] += "".join(_row(f"`{name}`", text) for name, text in codes if text != usual)
    for group in GROUPS:
        parts.append(f"## {group}")
        for name in (name for name, command in COMMANDS.items() if command.group == group):
            parts += [f"### {name}", f"```text\n{help_of(name).strip()}\n```"]
    return "\n\n".join(parts)


def _exit_codes(command: str) -> str:
    return epilogue(command).rpartition("Exit codes: ")[2]


def _parameters() -> str:
    parts = [
        "# Parameters",
        "Keys of a `--config` file, and names in the form of a deployment, in `regrade trigger --param` and in a notebook. A name "
        "with dots is a field of a group: `sampling.temperature`.",
    ]
    for job, title in _TITLES.items():
        rows = "".join(_row(f"`{name}`", f"{text} ({kind})") for name, kind, text in _fields(job))
        parts += [f"## {title}", _table("parameter", "meaning and type") + rows]
    heads = "\n".join(map(inspect.getsource, (FieldHead, Head)))
    parts += ["## Head of a rubric in a file", f"```python\n{heads}```"]
    return "\n\n".join(parts)


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield name, type and meaning of each field, with those of the groups below it."""
    for name, field in model.model_fields.items():
        groups = [group for group in _models(field.annotation) if group.__name__ != "Axis"]
        yield (
            f"{prefix}{name}",
            _type(field),
            _meaning(field, of_benchmark=model is SamplingSettings),
        )
        for group in groups:
            several = len(groups) > 1 and "kind" in group.model_fields
            kind = f" ({group.model_fields['kind'].default})" if several else ""
            for below, of, text in _fields(group, f"{prefix}{name}."):
                yield f"{below}{kind}", of, text


def _models(annotation: object) -> list[type[BaseModel]]:
    """Return the groups of fields that a type is made of."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _type(field: FieldInfo) -> str:
    shown = inspect.formatannotation(field.annotation)
    for package in ("regrade.", "typing.", "pathlib.", "collections.abc."):
        shown = shown.replace(package, "")
    words = shown if _models(field.annotation) == [] and len(shown) <= 60 else "group or list"
    return f"`{words}`" if words == shown else words


def _meaning(field: FieldInfo, *, of_benchmark: bool) -> str:
    """Return a field's description with its default, unless each benchmark has one of its own."""
    text = " ".join((field.description or "").split())
    default = field.default
    simple = (
        not of_benchmark
        and isinstance(default, str | int | float | bool)
        and default not in ("", None)
    )
    told = "Default:" in text
    return text if told or not simple else f"{text} Default: `{str(default).lower()}`.".strip()


def _scorers() -> str:
    parts = ["# Scorers"]
    for scorer in map(load_scorer, scorer_names()):
        parts += [f"## {scorer.name}", f"Version {scorer.version}. {scorer.description}"]
        parts.append(f"*Unparsed*: {scorer.unparsed}")
    return "\n\n".join(parts)


def _benchmarks() -> str:
    table = _table("name", "form", "scorers")
    rows = "".join(
        _row(
            f"[{card.name}](#{card.name})",
            f"{card.method}, {card.format}, {card.n_shots} examples, answers: {card.repeats}",
            ", ".join(f"`{scorer}`" for scorer in card.scorers),
        )
        for card in benchmark_cards()
    )
    parts = ["# Benchmarks", table + rows]
    parts.append(
        "`livecodebench_A_B` takes any two months (YYMM) or days (YYMMDD), `lm_eval:TASK` any task of lm-evaluation-harness."
    )
    for card in benchmark_cards():
        module = sys.modules[registry.load("benchmark", card.name).__module__]
        document = textwrap.dedent(module.__doc__ or "").strip()
        source = f"{card.description} Version {card.version}, from `{card.source}`."
        parts += [f"## {card.name}", source, f"```text\n{document}\n```"]
    parts.append("## Suites")
    for suite in SUITES:
        members = "".join(_row(f"`{name}`", form) for name, form in suite.forms.items())
        parts += [f"### {suite.name}", suite.description, _table("member", "form") + members]
    return "\n\n".join(parts)


def _figures() -> str:
    head = _table("field in `--json` and frames", "heading", "metric in MLflow")
    rows = "".join(_row(f"`{f.name}`", f.heading, f"`{f.key}`") for f in FIGURES)
    return f"# Figures\n\nFigures of an answer set and its scoring, beside accuracy and counts.\n\n{head}{rows}"


def _metrics() -> str:
    known = {metric.name: metric.help for metric in METRICS}
    rows = "".join(_row(f"`{name}`", help_) for name, help_ in known.items())
    return f"# Metrics for Prometheus\n\n{_table('metric', 'meaning')}{rows}"


def _table(*heads: str) -> str:
    return _row(*heads) + _row(*("---" for _ in heads))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"
