"""`regrade benchmarks`."""

from dataclasses import asdict

from regrade import registry
from regrade.benchmarks import benchmark_cards
from regrade.cli.options import Json
from regrade.cli.output import print_json
from regrade.cli.terminal import plain, stdout


def benchmarks(*, json: Json = False) -> None:
    """List the benchmarks there are, with version and source."""
    cards = benchmark_cards()
    broken = {error.name: error.problem for error in registry.broken("benchmark")}
    if json:
        print_json({"benchmarks": [asdict(card) for card in cards], "broken": broken})
        return
    for card in cards:
        stdout.print(
            f"[bold]{card.name}[/] v{card.version} · {card.source} · {card.method}, {card.format}, "
            f"{card.n_shots} shots · {', '.join(card.scorers)}"
        )
        stdout.print(f"    {card.description} {card.paper}".rstrip())
    for name, problem in broken.items():
        stdout.print(f"[bold]{plain(name)}[/] [red]cannot be used[/]: {plain(problem)}")
    stdout.print(
        "[bold]dataset[/] any dataset on the Hub or in a file: see `--dataset.*` of `regrade evaluate --help`"
    )
