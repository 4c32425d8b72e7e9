"""`regrade judge`: let judge models grade stored answers."""

from dataclasses import field, fields, make_dataclass
from typing import TYPE_CHECKING, Annotated, get_type_hints

from cyclopts import Group, Parameter

from regrade.answers.opening import open_repository
from regrade.cli.checking import checked_job
from regrade.cli.generation_options import GenerationOptions
from regrade.cli.options import SCORING, PriceInput, PriceOutput, TrackingUri, price_of
from regrade.cli.output import TABLE, Output
from regrade.cli.run import run_flow
from regrade.comparing.sides import find_side
from regrade.jobs.job import JudgeJob
from regrade.judging.choosing import check_asking
from regrade.settings.errors import SettingsError

JUDGE = Group("Judges and rubric", sort_key=1)
_OF_CANDIDATES = frozenset(
    {
        "model",
        "benchmark",
        "suite",
        "lm_eval_path",
        "repeats",
        "source",
        "dataset",
        "share",
        "goodput",
    }
)
"""Options of generating that a judge does not have."""

if TYPE_CHECKING:
    JudgeEngineOptions = GenerationOptions
else:
    _HINTS = get_type_hints(GenerationOptions, include_extras=True)
    JudgeEngineOptions = Parameter(name="*")(
        make_dataclass(
            "JudgeEngineOptions",
            [
                (option.name, _HINTS[option.name], field(default=option.default))
                for option in fields(GenerationOptions)
                if option.name not in _OF_CANDIDATES
            ],
            frozen=True,
            kw_only=True,
            namespace={"__module__": __name__},  # else cyclopts takes it for a built-in type
        )
    )
    """Options of generating that a judge has, too."""


def judge(
    *answer_set: Annotated[
        str,
        Parameter(
            help="Id of an answer set (the first digits are enough), model or alias. Default: all answers that wait for a judge."
        ),
    ],
    options: JudgeEngineOptions | None = None,
    judge: Annotated[
        tuple[str, ...],
        Parameter(
            group=JUDGE,
            negative=(),
            help="Model that judges: on the Hub, in a folder, or the name on a server. Several times for several judges.",
        ),
    ] = (),
    rubric: Annotated[
        str | None,
        Parameter(
            group=JUDGE,
            help="`accuracy_style`, `correct`, `criteria`, `pairwise`, or a Jinja file. Default: the benchmark's.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        Parameter(
            group=JUDGE, help="Other side of `--rubric pairwise`: answer set id, model or alias."
        ),
    ] = None,
    criteria: Annotated[
        str | None,
        Parameter(
            group=JUDGE,
            help="YAML or JSON file for `--rubric criteria`. Default: the criteria are stored with the questions.",
        ),
    ] = None,
    judge_repeats: Annotated[
        int | None,
        Parameter(
            group=JUDGE,
            help="Verdicts on each answer, to see how often a judge changes its verdict.",
        ),
    ] = None,
    self_test: Annotated[
        bool,
        Parameter(
            group=JUDGE,
            help="Judge built-in answers, some of which tell the judge what to say.",
        ),
    ] = False,
    min_coverage: Annotated[
        float | None,
        Parameter(
            group=SCORING,
            help="Smallest share of answers with a verdict for a headline number. Default: 0.95.",
        ),
    ] = None,
    price_input: PriceInput = None,
    price_output: PriceOutput = None,
    tracking_uri: TrackingUri = None,
    output: Output = TABLE,
) -> None:
    """Let judge models grade stored answers, and keep their verdicts as answer sets of their own."""
    given = {} if options is None else {f.name: getattr(options, f.name) for f in fields(options)}
    chosen = GenerationOptions(**given).parameters(needs_model=False)
    if answer_set:
        chosen["answer_sets"] = answer_set
    if judge:
        chosen["judges"] = judge
    values = {
        "rubric": rubric,
        "baseline": baseline,
        "criteria": criteria,
        "judge_repeats": judge_repeats,
        "self_test": self_test or None,
        "price": price_of(price_input, price_output),
        "tracking_uri": tracking_uri,
    }
    chosen |= {name: value for name, value in values.items() if value is not None}
    if min_coverage is not None:
        chosen["scoring"] = {**(chosen.get("scoring") or {}), "min_coverage": min_coverage}
    if not chosen.get("judges"):
        raise SettingsError("No judge is given. Name one with `--judge MODEL`.")
    job = checked_job(JudgeJob, chosen, options.config if options is not None else None)
    check_judging(job)
    run_flow("judge_answers", chosen, output)


def check_judging(job: JudgeJob) -> None:
    """Refuse a job whose rubric, files or answers cannot be used, before Prefect is imported.

    Raises:
        SettingsError: If there is no such rubric, a file cannot be read, or the rubric needs another side.
        RepositoryError: If the repository does not exist, which the self-test makes, or has no such answers.
    """
    check_asking(job.rubric, None, job.prompt, baseline=job.baseline, criteria=job.criteria)
    repository = open_repository(job.answers, create=False, empty=job.self_test)
    for name in filter(None, (*job.answer_sets, job.baseline)):
        find_side(name, repository.uri)
