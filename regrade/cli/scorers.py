"""`regrade scorers`."""

from regrade import registry
from regrade.cli.options import Json
from regrade.cli.output import print_json
from regrade.cli.terminal import plain, stdout
from regrade.scorers import load_scorer, scorer_names
from regrade.scoring.source_hash import source_hash


def scorers(*, json: Json = False) -> None:
    """List the scorers there are, with version and the hash of their source."""
    broken = {error.name: error.problem for error in registry.broken("scorer")}
    found = [
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
    if json:
        print_json({"scorers": found, "broken": broken})
        return
    for one in found:
        stdout.print(f"[bold]{one['name']}[/] v{one['version']}, source {one['source_hash']}")
        stdout.print(f"    reads     {plain(str(one['extracts']))}")
        stdout.print(f"    unparsed  {plain(str(one['unparsed']))}")
    for name, problem in broken.items():
        stdout.print(f"[bold]{plain(name)}[/] [red]cannot be used[/]: {plain(problem)}")
