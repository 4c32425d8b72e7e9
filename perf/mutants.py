"""Mutation tests: small changes of key modules, and whether the tests of the module notice them.

For each module, a seeded sample of mutants (mutmut's operators) is tested in a copy of the repository, never in the checkout.
Tests that need vLLM, Prefect, Postgres or minutes are not run. Prints the diffs of the mutants that survived, then a table;
exits with 1 if a smaller share than `--least` was noticed. See CONTRIBUTING.md, "Mutation tests".
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perf.measuring import ROOT, arguments_of, report
from perf.mutants_running import BaselineError, ModuleTests, Outcome, copied

# pytest stops at the first failure, so quick tests stand first.
CORPUS, HOSTILE = "tests/scorers/test_corpus.py", "tests/scorers/test_hostile.py"
EVERY = "tests/scorers/test_scorers.py"
NUMBER = ("tests/scorers/test_number.py",)
LETTER = ("tests/scorers/test_choice_letter.py",)
TEXT = ("tests/scorers/test_text.py", "tests/scorers/test_exact.py")
NUMBERS = (CORPUS, *NUMBER, EVERY, HOSTILE)
LETTERS = (CORPUS, *LETTER, EVERY, HOSTILE)
TEXTS = (CORPUS, *TEXT, EVERY, HOSTILE)
ALL_SCORERS = (CORPUS, *LETTER, *TEXT, *NUMBER, EVERY, HOSTILE)
COMPARING = ("tests/comparing",)

ALONE = (
    *("hub/retries", "records/specification", "scoring/diff", "stats/agreement", "stats/bias"),
    *("stats/corrected", "stats/decision", "stats/estimates", "stats/paired", "stats/metrics"),
)
"""Modules whose tests are one file of the same name."""
MODULES: dict[str, Sequence[str]] = {
    **{name: (f"tests/{name.replace('/', '/test_')}.py",) for name in ALONE},
    "stats/margins": ("tests/stats/test_margins.py", "tests/stats/test_decision.py"),
    "stats/power": ("tests/stats/test_power.py", "tests/stats/test_decision.py"),
    "stats/unseen": ("tests/stats/test_unseen.py", "tests/stats/test_decision.py"),
    "judging/labels/sampling": ("tests/judging/labels/test_labels.py",),
    "judging/labels/sheet": ("tests/judging/labels/test_labels.py",),
    "stats/significance": ("tests/stats/test_significance.py", "tests/stats/test_metrics.py"),
    "comparing/verdict": COMPARING,
    "comparing/pairing": COMPARING,
    "scorers/number": NUMBERS,
    "scorers/number_strict": NUMBERS,
    "scorers/choice_letter": LETTERS,
    "scorers/text": TEXTS,
    "scorers/extraction/accepted": TEXTS,
    "scorers/extraction/canonical": TEXTS,
    "scorers/extraction/choices": LETTERS,
    "scorers/extraction/columns": ALL_SCORERS,
    "scorers/extraction/letters": LETTERS,
    "scorers/extraction/numerals": NUMBERS,
    "scorers/extraction/pieces": ALL_SCORERS,
    "scorers/extraction/slots": ALL_SCORERS,
    "scorers/extraction/wording": ALL_SCORERS,
    "answers/spool": ("tests/answers/test_spool.py", "tests/answers/test_publishing.py"),
    "answers/publishing": ("tests/answers/test_publishing.py", "tests/answers/test_merging.py"),
    "answers/merging": ("tests/answers/test_merging.py", "tests/answers/test_publishing.py"),
}
"""Modules of regrade, and the tests that must notice a change of them."""


def tested(copy: Path, name: str, count: int, seed: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Test a sample of the mutants of a module; return its row of the table and the diffs that survived."""
    from perf.mutants_making import changed_lines, sample  # noqa: PLC0415 - `make mutants` installs mutmut

    module = f"regrade/{name}.py"
    source = (copy / module).read_text(encoding="utf-8")
    mutants = sample(source, count, f"{seed}-{name}")
    tests = ModuleTests.measured(copy, module, MODULES[name])
    outcomes: Counter[Outcome] = Counter()
    survivors = {}
    for number, mutant in enumerate(mutants.sources, 1):
        outcome = tests.outcome(mutant)
        outcomes[outcome] += 1
        print(f"{name} {number}/{len(mutants.sources)}: {outcome}", file=sys.stderr, flush=True)
        if outcome is Outcome.SURVIVED:
            survivors[f"{name} {number}"] = changed_lines(source, mutant, module)
            print(survivors[f"{name} {number}"], flush=True)
    return row(name, mutants.possible, outcomes), survivors


def row(name: str, possible: int, outcomes: Counter[Outcome]) -> dict[str, Any]:
    """One row of the table; the score is the noticed share, and a timeout is noticed."""
    run = outcomes.total()
    return {
        "module": name,
        "mutants possible": possible,
        "run": run,
        **{str(outcome): outcomes[outcome] for outcome in Outcome},
        "score": f"{1 - outcomes[Outcome.SURVIVED] / run:.0%}" if run else "none",
    }


def exit_code(rows: Sequence[dict[str, Any]], least: float) -> int:
    """0 if at least the share `least` of all mutants was noticed; none run is a failure."""
    run = sum(each["run"] for each in rows)
    survived = sum(each[Outcome.SURVIVED] for each in rows)
    return 0 if run and (run - survived) / run >= least else 1


def main() -> None:
    """Test the mutants and report."""
    parser = arguments_of(__doc__)
    parser.add_argument(
        "--modules", nargs="+", choices=MODULES, default=list(MODULES), metavar="MODULE"
    )
    parser.add_argument("--count", type=int, default=40, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--least", type=float, default=0.0, help="least share noticed, 0 to 1")
    options = parser.parse_args()
    if options.count < 1 or not 0 <= options.least <= 1:
        parser.error("--count must be at least 1, and --least between 0 and 1.")
    rows: list[dict[str, Any]] = []
    survivors: dict[str, str] = {}
    try:
        with copied(ROOT) as copy:
            for name in options.modules:
                table_row, survived = tested(copy, name, options.count, options.seed)
                rows.append(table_row)
                survivors |= survived
    except BaselineError as error:
        sys.exit(str(error))
    report("mutants", rows, seed=options.seed, survivors=survivors)
    sys.exit(exit_code(rows, options.least))


if __name__ == "__main__":
    main()
