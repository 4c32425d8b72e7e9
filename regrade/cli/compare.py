"""`regrade compare`."""

from pathlib import Path

from regrade.cli.options import Allow, Answers, Benchmarks, Sandbox, scoring_options
from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import print_blocks
from regrade.comparing.comparison import CompareOptions
from regrade.comparing.models import Cluster
from regrade.comparing.text import blocks, not_compared
from regrade.comparing.together import compare_sides
from regrade.jobs.job import default_answers
from regrade.settings.errors import SettingsError
from regrade.text.files import write_file
from regrade.text.markdown import markdown as as_markdown


def compare(
    base: str,
    candidate: str,
    *,
    answers: Answers = None,
    base_answers: str | None = None,
    benchmark: Benchmarks = (),
    allow: Allow = (),
    min_coverage: float | None = None,
    scorer: str | None = None,
    clusters: Cluster = "question",
    examples: int = 3,
    sandbox: Sandbox = None,
    markdown: Path | None = None,
    output: Output = TABLE,
) -> None:
    """Compare two models, or two answer sets, question by question.

    Two models are compared on every benchmark for which both have a complete answer set.

    Args:
        base: Answer set id, model, or alias such as `baseline`.
        candidate: Answer set id, model or alias to compare with the base.
        base_answers: Answer repository of the base; that of `--answers` if not given.
        min_coverage: Least share of the questions to compare, in percent; 90 if not given.
        scorer: Scorer of both sides, or a function in a file (`path/to/file.py:name`); the baseline's first if not given.
        clusters: Independent units; `subset` if subsets are passages with several questions each.
        examples: Number of flipped answers to show of each kind.
        markdown: File for the comparison as markdown.
    """
    if examples < 0:
        raise SettingsError(f"`--examples {examples}` should be 0 or more.")
    if min_coverage is not None and not 0 <= min_coverage <= 100:
        raise SettingsError(
            f"`--min-coverage {min_coverage:g}` should be from 0 to 100, in percent."
        )
    options = CompareOptions(
        allow=allow,
        min_coverage=None if min_coverage is None else min_coverage / 100,
        scorer=scorer,
        cluster=clusters,
        examples=examples,
        scoring=scoring_options(sandbox),
    )
    comparisons = compare_sides(
        base,
        candidate,
        answers=answers or default_answers(),
        base_answers=base_answers,
        benchmarks=benchmark,
        options=options,
    ).comparisons
    if markdown is not None:
        write_file(markdown, as_markdown(blocks(comparisons)))
    page = blocks(comparisons) if comparisons.compared else []  # the error gives the reason
    output.show(comparisons.model_dump(mode="json"), lambda: print_blocks(page))
    if not comparisons.compared:
        reason = " ".join(not_compared(comparisons)) or "the two have no benchmark in common"
        raise SettingsError(f"Nothing could be compared: {reason}")
