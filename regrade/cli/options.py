"""Options that commands share, and the groups of options in the help."""

from typing import Annotated, Any

from cyclopts import Group, Parameter

from regrade.settings import Difference, SandboxName
from regrade.settings.errors import SettingsError

WHAT = Group("What to evaluate", sort_key=1)
WHERE = Group("Storage and output", sort_key=2)
STORED = Group("Stored answers", sort_key=3)
MACHINES = Group("Several machines for the same answers", sort_key=3.5)
SAMPLING = Group("Sampling params (default: see `--sampling`)", sort_key=4)
PROMPT = Group("Prompts (default: the benchmark's)", sort_key=5)
ENGINE = Group("Engine", sort_key=6)
SERVER = Group("Engine `openai`", sort_key=7)
SCORING = Group("Scoring", sort_key=7.5)
DATASET = Group("A custom benchmark from any dataset (requires name and path)", sort_key=8)

Answers = Annotated[
    str | None,
    Parameter(
        group=WHERE,
        help="Answer repository: `hf://datasets/ORG/NAME` or a folder. Default: REGRADE_ANSWERS, else `./answers`.",
    ),
]
TrackingUri = Annotated[
    str | None,
    Parameter(
        group=WHERE,
        help="MLflow server or database. Default: MLFLOW_TRACKING_URI, else SQLite beside the answers.",
    ),
]
Sandbox = Annotated[
    SandboxName | None,
    Parameter(
        group=SCORING,
        help="Sandbox of programs in answers (scorer `code`): `bwrap`, the default, needs bubblewrap and namespaces; "
        "`landlock` needs neither and isolates less (docs/code.md).",
    ),
]
Processes = Annotated[
    int | None,
    Parameter(
        group=SCORING,
        help="Answers scored at the same time by scorers that use processes. Default: all cores.",
    ),
]
Benchmarks = Annotated[
    tuple[str, ...], Parameter(help="Only this benchmark. May be given several times.")
]
MetricsPort = Annotated[
    int | None,
    Parameter(
        group=WHERE,
        help="Serve metrics of the evaluation for Prometheus on this port of 127.0.0.1 (docs/monitoring.md). Default: "
        "REGRADE_METRICS_PORT, else none.",
    ),
]
Allow = Annotated[
    tuple[Difference, ...],
    Parameter(
        help="Difference between the two sides to allow; others are refused. May be given several times."
    ),
]


def source_override(text: str) -> dict[str, str]:
    """Return what `BENCHMARK=PATH` says, as fields of `SourceOverride`.

    Raises:
        SettingsError: If it is not written like this.
    """
    benchmark, equals, path = text.partition("=")
    if not equals or not path:
        raise SettingsError(
            f"`--source {text}` should be `BENCHMARK=PATH`, such as `gsm8k=test.jsonl`."
        )
    return {"benchmark": benchmark, "path": path}


def scoring_options(
    sandbox: SandboxName | None,
    processes: int | None = None,
    source: tuple[str, ...] = (),
    lm_eval_path: str | None = None,
) -> dict[str, Any]:
    """Return the parameter `scoring` of a flow, without what is not given.

    Raises:
        SettingsError: If a source is not `BENCHMARK=PATH`.
    """
    options = {"sandbox": sandbox, "processes": processes, "lm_eval_path": lm_eval_path}
    chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return chosen | ({"sources": [source_override(text) for text in source]} if source else {})


# Options with the price of a model's tokens.

COST = Group("Cost", sort_key=7.7)

PriceInput = Annotated[
    float | None,
    Parameter(
        group=COST, help="Price of a million tokens of prompts, to show what the answers cost."
    ),
]
PriceOutput = Annotated[
    float | None,
    Parameter(group=COST, help="Price of a million generated tokens, reasoning included."),
]


def price_of(price_input: float | None, price_output: float | None) -> dict[str, float] | None:
    """Return the parameter `price` of a flow; None if no price is given."""
    given = {"input": price_input, "output": price_output}
    return {name: price for name, price in given.items() if price is not None} or None
