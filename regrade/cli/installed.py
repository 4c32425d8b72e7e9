"""`regrade benchmarks` and `regrade scorers`."""

from dataclasses import asdict

from regrade import registry
from regrade.benchmarks import benchmark_cards
from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import plain, stdout
from regrade.scorers import load_scorer, scorer_names
from regrade.scoring.source_hash import source_hash


def benchmarks(*, output: Output = TABLE) -> None:
    """List the benchmarks with their versions and sources."""
    cards = benchmark_cards()
    broken = _broken("benchmark")

    def draw() -> None:
        for card in cards:
            stdout.print(
                f"[bold]{card.name}[/] v{card.version} · {card.source} · {card.method}, {card.format}, "
                f"{card.n_shots} shots · {', '.join(card.scorers)}"
            )
            stdout.print(f"    {card.description} {card.paper}".rstrip())
        _print_broken(broken)
        stdout.print(
            "[bold]dataset[/] any dataset on the Hub or in a file: see `--dataset.*` of `regrade evaluate --help`"
        )

    output.show({"benchmarks": [asdict(card) for card in cards], "broken": broken}, draw)


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
