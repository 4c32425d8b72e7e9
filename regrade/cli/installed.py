"""`regrade benchmarks` and `regrade scorers`."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any

from cyclopts import Parameter

from regrade.answers.durations import Duration, durations
from regrade.benchmarks import benchmark_cards
from regrade.benchmarks.base import BenchmarkCard
from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import plain, stdout
from regrade.lm_eval.index import matching, task_index
from regrade.lm_eval.listing import described, line_of
from regrade.scorers import JUDGE, load_scorer, scorer_names
from regrade.scoring.source_hash import source_hash
from regrade.settings import registry
from regrade.settings.errors import SettingsError
from regrade.settings.suites import SUITES, Suite
from regrade.text.text import duration_text, visible


def benchmarks(
    pattern: str = "",
    /,
    *,
    lm_eval: Annotated[bool, Parameter(negative="")] = False,
    lm_eval_path: str | None = None,
    output: Output = TABLE,
) -> None:
    """List the benchmarks with their versions and sources, and the suites.

    A benchmark's line ends with the time that its last complete run took on this machine.

    Args:
        pattern: Only names that contain this text, or match it if it has `*`.
        lm_eval: List the tasks, groups and tags of lm-evaluation-harness, which run as `lm_eval:NAME`.
        lm_eval_path: Also those in this folder of yaml files.
    """
    if lm_eval or lm_eval_path is not None:
        _show_harness(pattern, lm_eval_path, output)
        return
    cards = [card for card in benchmark_cards() if pattern.strip("*") in card.name]
    broken = _broken("benchmark")
    took = durations()

    def draw() -> None:
        for card in cards:
            stdout.print(
                f"[bold]{card.name}[/] v{card.version} · {card.source} · {card.method}, {card.format}, "
                f"{card.n_shots} shots{_repeated(card)} · {', '.join(map(_named, card.scorers))}"
            )
            stdout.print(f"    {card.description} {card.paper}".rstrip())
            if card.name in took:
                stdout.print(f"    {_took(took[card.name])}")
        _print_broken(broken)
        stdout.print(
            "[bold]dataset[/] any dataset on the Hub or in a file: see `--dataset.*` of `regrade evaluate --help`"
        )

        for suite in SUITES:
            stdout.print(f"[bold]--suite {suite.name}[/] {suite.description}")
            for name, form in suite.forms.items():
                stdout.print(f"    {name}: {form}")
            for line in _remarks(suite, took):
                stdout.print(f"    {line}")

    output.show(
        {
            "benchmarks": [
                {**asdict(card), "last_run": _document(took.get(card.name))} for card in cards
            ],
            "suites": [
                {**asdict(suite), "benchmarks": suite.benchmarks, "missing": suite.missing}
                for suite in SUITES
            ],
            "broken": broken,
        },
        draw,
    )


def _named(scorer: str) -> str:
    """Return a scorer's name, with a remark if it grades by a judge model."""
    return (
        f"{scorer} (a judge model grades the answers: `regrade judge`)"
        if scorer == JUDGE
        else scorer
    )


def _document(duration: Duration | None) -> dict[str, Any] | None:
    return None if duration is None else duration.model_dump(mode="json", exclude={"benchmark"})


def _repeated(card: BenchmarkCard) -> str:
    return "" if card.repeats == 1 else f", {card.repeats} answers each"


def _took(duration: Duration) -> str:
    device = f" on {plain(duration.device)}" if duration.device else ""
    return (
        f"took {duration_text(duration.seconds)} for {duration.rows:,} answers of {plain(duration.model)} "
        f"({plain(duration.engine)}{device}, {duration.finished_at:%Y-%m-%d})"
    )


def _remarks(suite: Suite, took: Mapping[str, Duration]) -> Iterator[str]:
    if suite.missing:
        yield f"[yellow]not installed here[/]: {', '.join(suite.missing)}"
    known = [took[name] for name in suite.benchmarks if name in took]
    if known:
        part = (
            ""
            if len(known) == len(suite.benchmarks)
            else f" ({len(known)} of {len(suite.benchmarks)} members)"
        )
        models = ", ".join(dict.fromkeys(plain(duration.model) for duration in known))
        yield f"took {duration_text(sum(duration.seconds for duration in known))}{part} with {models}"


def _show_harness(pattern: str, path: str | None, output: Output) -> None:
    index = task_index(path)
    found = [described(entry, index) for entry in matching(pattern, index)]
    if not found:
        raise SettingsError(f"lm-evaluation-harness has no name that matches '{pattern}'.")

    def draw() -> None:
        # Not through rich, which takes seconds for 14,000 lines.
        sys.stdout.write("".join(f"{visible(line_of(entry))}\n" for entry in found))

    output.show({"lm_eval": [asdict(entry) for entry in found]}, draw)


def scorers(*, output: Output = TABLE) -> None:
    """List the scorers with their versions and source hashes."""
    broken = _broken("scorer")
    usable = [
        {
            "name": name,
            "version": load_scorer(name).version,
            "source_hash": source_hash(name),
            "extracts": load_scorer(name).description,
            "unparsed": load_scorer(name).unparsed,
        }
        for name in scorer_names()
        if name not in broken
    ]

    def draw() -> None:
        for scorer in usable:
            stdout.print(
                f"[bold]{scorer['name']}[/] v{scorer['version']}, source {scorer['source_hash']}"
            )
            stdout.print(f"    reads     {plain(str(scorer['extracts']))}")
            stdout.print(f"    unparsed  {plain(str(scorer['unparsed']))}")
        _print_broken(broken)

    output.show({"scorers": usable, "broken": broken}, draw)


def _broken(kind: registry.Kind) -> dict[str, str]:
    """Return names from other packages that cannot be used, each with the reason."""
    return {error.name: error.problem for error in registry.broken(kind)}


def _print_broken(broken: dict[str, str]) -> None:
    for name, problem in broken.items():
        stdout.print(f"[bold]{plain(name)}[/] [red]cannot be used[/]: {plain(problem)}")
