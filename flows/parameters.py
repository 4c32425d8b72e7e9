"""Parameters that flows share: type, input in the form and description.

A flow that means something else by one of them says so in its docstring, which the form prefers.
"""

from datetime import date
from typing import Annotated

from regrade import settings
from regrade.jobs import job, shares
from regrade.orchestration.form import Description

Model = Annotated[
    str,
    Description(
        "Model on the Hub (`org/name` or `org/name@revision`), or a folder with a checkpoint.",
        minLength=1,
    ),
]
Benchmarks = Annotated[
    tuple[settings.BenchmarkName, ...],
    Description('Benchmarks to run; at least one, here or under "Benchmarks of your own".'),
]
Limit = Annotated[
    int | None,
    Description(
        "Number of questions of each benchmark, spread evenly over it. None: all.",
        title="Questions per benchmark",
        minimum=1,
    ),
]
Sampling = Annotated[
    settings.SamplingSettings | None,
    Description(
        "Decoding settings. None: the defaults of each benchmark, or the model's if it reasons before it answers."
    ),
]
Engine = Annotated[
    job.EngineSettings | None,
    Description(
        "Engine that generates the answers. None: vLLM on the worker's machine with its defaults."
    ),
]
Answers = Annotated[
    str | None,
    Description(
        "Answer repository, `hf://datasets/org/name` or a folder. None: the worker's default.",
        title="Answer repository",
    ),
]
Prompt = Annotated[
    settings.PromptSettings | None,
    Description(
        "Prompt settings: format, examples, system message. None: the defaults of each benchmark."
    ),
]
Repeats = Annotated[
    int | None,
    Description(
        "Answers per question; more than one needs a temperature above 0. None: the number of each benchmark.",
        title="Answers per question",
        minimum=1,
    ),
]
Datasets = Annotated[
    tuple[settings.DatasetBenchmark, ...] | None,
    Description(
        "Further benchmarks: a dataset on the Hub or in a file, with a prompt template.",
        title="Benchmarks of your own",
    ),
]
LmEval = Annotated[
    settings.HarnessTasks | None,
    Description(
        "Tasks of lm-evaluation-harness to run as benchmarks. None: none.",
        title="Tasks of lm-evaluation-harness",
    ),
]
Sources = Annotated[
    tuple[settings.SourceOverride, ...] | None,
    Description(
        "Files or folders to use instead of a benchmark's dataset on the Hub.",
        title="Questions from files",
    ),
]
Reuse = Annotated[
    settings.Reuse | None,
    Description("Use of stored answers. None: they are kept, and failed requests are sent again."),
]
Share = Annotated[
    shares.ShareText | None,
    Description(
        "Part of the questions with which this machine begins, such as `2/4`, if several machines generate the same "
        "answers; `auto` in a Slurm array or an indexed Job. None: it is alone.",
        title="Share, if several machines work together",
        pattern="^(auto|[0-9]+/[0-9]+)$",
    ),
]
Goodput = Annotated[
    settings.GoodputLimits | None,
    Description(
        "Longest latencies of answers that are counted as goodput. None: goodput is not measured.",
        title="Goodput",
    ),
]
Scorer = Annotated[
    settings.ScorerName | None,
    Description("Scorer to use. None: the scorers of each benchmark."),
]
Scoring = Annotated[
    settings.ScoringOptions | None,
    Description(
        "How scorers run that need processes or a sandbox. None: on all cores, in bubblewrap."
    ),
]
Judge = Annotated[
    job.JudgeSettings | None,
    Description(
        "Judges that grade the answers afterwards, once the model's engine has ended. None: no judge."
    ),
]
Price = Annotated[
    settings.TokenPrice | None,
    Description("Price of the model's tokens. None: no cost is shown."),
]
TrackingUri = Annotated[
    str | None,
    Description("MLflow server or database. None: the worker's default.", title="MLflow"),
]
Machines = Annotated[
    int | None,
    Description(
        "Number of machines that generate: as many runs of `generate-answers` start on its pool, and this run waits for "
        "them and scores. None: this machine generates.",
        title="Machines that generate",
        minimum=1,
        maximum=1000,
    ),
]
OfModel = Annotated[str | None, Description("Only answers of this model. None: all models.")]
OfBenchmark = Annotated[
    str | None, Description("Only answers to this benchmark. None: all benchmarks.")
]
Since = Annotated[
    date | None,
    Description("Only answer sets to which answers were added on this day (UTC) or later."),
]
Until = Annotated[
    date | None, Description("Only answer sets created on this day (UTC) or earlier.")
]
