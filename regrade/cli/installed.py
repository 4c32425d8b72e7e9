"""`regrade benchmarks` and `regrade scorers`."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from regrade.answers.durations import Duration, durations
from regrade.benchmarks import benchmark_cards
from regrade.benchmarks.base import BenchmarkCard
from regrade.cli.command_list import command
from regrade.cli.output import TABLE, Output
from regrade.lm_eval.index import matching, task_index
from regrade.lm_eval.listing import described, line_of
from regrade.scorers import JUDGE, load_scorer, scorer_names
from regrade.scoring.source_hash import source_hash
from regrade.settings import registry
from regrade.settings.errors import SettingsError
from regrade.settings.suites import SUITES, Suite
from regrade.text.blocks import Block, Line, Strong, with_code
from regrade.text.text import duration_text, visible


@command(group="This installation")
def benchmarks(
    pattern: str = "",
    /,
    *,
    lm_eval: bool = False,
    lm_eval_path: str | None = None,
    output: Output = TABLE,
) -> None:
    """List the benchmarks with their versions and sources, and the suites.

    A benchmark's line ends with the time that its last complete run took on this machine.

    Args:
        pattern: Only names that contain this text, or match it if it has `*`.
        lm_eval: List the tasks, groups and tags of lm-evaluation-harness, which run as `lm_eval:NAME`.
        lm_eval_path: Also those in this folder of yaml files.

    Examples:
        benchmarks
        benchmarks 'arc*' --lm-eval
    """
    if lm_eval or lm_eval_path is not None:
        _show_harness(pattern, lm_eval_path, output)
        return
    cards = [card for card in benchmark_cards() if pattern.strip("*") in card.name]
    broken = _broken("benchmark")
    took = durations()

    def lines() -> Iterator[Block]:
        for card in cards:
            text = (
                f" v{card.version} · {card.source} · {card.method}, {card.format}, {card.n_shots} shots{_repeated(card)} · "
                f"{', '.join(map(_named, card.scorers))}"
            )
            yield Line((Strong(card.name), text))
            yield Line(f"    {card.description} {card.paper}".rstrip())
            if card.name in took:
                yield Line(f"    {_took(took[card.name])}")
        yield from _unusable(broken)
        see = " any dataset on the Hub or in a file: see `--dataset.*` of `regrade evaluate --help`"
        yield Line((Strong("dataset"), *with_code(see)))
        for suite in SUITES:
            yield Line((Strong(f"--suite {suite.name}"), f" {suite.description}"))
            for name, form in suite.forms.items():
                yield Line(f"    {name}: {form}")
            yield from _remarks(suite, took)

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
        lines,
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
    device = f" on {duration.device}" if duration.device else ""
    return (
        f"took {duration_text(duration.seconds)} for {duration.rows:,} answers of {duration.model} "
        f"({duration.engine}{device}, {duration.finished_at:%Y-%m-%d})"
    )


def _remarks(suite: Suite, took: Mapping[str, Duration]) -> Iterator[Block]:
    if suite.missing:
        yield Line(f"    not installed here: {', '.join(suite.missing)}", "doubt")
    known = [took[name] for name in suite.benchmarks if name in took]
    if known:
        part = (
            ""
            if len(known) == len(suite.benchmarks)
            else f" ({len(known)} of {len(suite.benchmarks)} members)"
        )
        models = ", ".join(dict.fromkeys(duration.model for duration in known))
        seconds = sum(duration.seconds for duration in known)
        yield Line(f"    took {duration_text(seconds)}{part} with {models}")


def _show_harness(pattern: str, path: str | None, output: Output) -> None:
    index = task_index(path)
    found = [described(entry, index) for entry in matching(pattern, index)]
    if not found:
        raise SettingsError(f"lm-evaluation-harness has no name that matches '{pattern}'.")

    def draw() -> None:
        # Not through rich, which takes seconds for 14,000 lines.
        sys.stdout.write("".join(f"{visible(line_of(entry))}\n" for entry in found))

    output.show({"lm_eval": [asdict(entry) for entry in found]}, draw)


@command(group="This installation")
def scorers(*, output: Output = TABLE) -> None:
    """List the scorers with their versions and source hashes.

    Examples:
        scorers
    """
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

    def lines() -> Iterator[Block]:
        for scorer in usable:
            source = f" v{scorer['version']}, source {scorer['source_hash']}"
            yield Line((Strong(str(scorer["name"])), source))
            yield Line(f"    reads     {scorer['extracts']}")
            yield Line(f"    unparsed  {scorer['unparsed']}")
        yield from _unusable(broken)

    output.show({"scorers": usable, "broken": broken}, lines)


def _broken(kind: registry.Kind) -> dict[str, str]:
    """Return names from other packages that cannot be used, each with the reason."""
    return {error.name: error.problem for error in registry.broken(kind)}


def _unusable(broken: Mapping[str, str]) -> Iterator[Block]:
    for name, problem in broken.items():
        yield Line((Strong(name), f" cannot be used: {problem}"), "bad")
