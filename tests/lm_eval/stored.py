"""Answer sets of tasks, as the pipeline stores them, with the answers of the stand-in."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from regrade.answers.base import Repository
from regrade.answers.origin import SetDescription
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from regrade.benchmarks import open_benchmark
from regrade.benchmarks.base import Benchmark
from regrade.models.base import ResolvedModel
from regrade.records import Completion, Sample
from regrade.records.columns import generation_row
from regrade.records.specification import ModelIdentity, effective_sampling
from regrade.settings import PromptSettings
from tests.builders import specification
from tests.lm_eval.comparing import rendered
from tests.lm_eval.rows import splits
from tests.lm_eval.stand_in import generated, ranked, rolled

SERVED = ResolvedModel(
    identity=ModelIdentity(name="served", kind="served", revision="r"), path="", answers_chats=None
)


@cache
def data_folder(root: Path, path: str, names: tuple[str | None, ...]) -> Path:
    """Write the stand-in of a Hub dataset into a folder, as `--source` reads it."""
    folder = root / path.replace("/", "-")
    for name in names:
        part = folder / name if name and len(names) > 1 else folder
        part.mkdir(parents=True, exist_ok=True)
        for split, rows in splits(path, name).items():
            rows.to_parquet(part / f"{split}.parquet")
    return folder


def harness_task(spec: str, folder: Path, **options: Any) -> Benchmark:
    """Open a task whose questions are in a folder; `@chat` asks in chats."""
    name, _, chat = spec.partition("@")
    prompt = PromptSettings(format="chat" if chat else None)
    return open_benchmark(f"lm_eval:{name}", prompt=prompt, source=str(folder), **options)


def own_task(folder: Path, name: str, *lines: str, text: str = "q", target: str = "q") -> None:
    """Write a task that generates texts into a folder of tasks.

    Args:
        folder: Made if it does not exist.
        name: Of the task.
        lines: Further lines of its yaml file.
        text: Its `doc_to_text`.
        target: Its `doc_to_target`.
    """
    folder.mkdir(exist_ok=True)
    shared = ("test_split: test", "output_type: generate_until", f"doc_to_text: {text}")
    written = (f"task: {name}", *shared, f"doc_to_target: {target}", *lines)
    (folder / f"{name}.yaml").write_text("\n".join(written) + "\n")


def of_file(path: Path) -> str:
    """Return the lines of a task whose questions are in a file of JSON lines."""
    return f"dataset_path: json\ndataset_kwargs: {{data_files: {{test: {path}}}}}"


def publish_task(
    benchmark: Benchmark,
    repository: Repository,
    tmp: Path,
    edit: Callable[[dict[str, Any]], Mapping[str, Any]] = lambda _: {},
) -> AnswerSet:
    """Publish the stand-in's answers to all questions of a task, with columns replaced by `edit`."""
    repeats = benchmark.repeats
    spec = specification(
        benchmark.identity,
        prompt=benchmark.prompt_identity,
        method=benchmark.method,
        sampling=effective_sampling(benchmark.sampling, benchmark.method),
        repeats=repeats,
    )
    samples = benchmark.samples()
    described = SetDescription(
        specification=spec,
        n_samples=len(samples),
        scorers=benchmark.scorers,
        groups=dict(benchmark.groups),
    )
    with Spool(tmp / f"spool-{spec.answer_set_id}") as spool:
        spool.append(
            [
                row | edit(row)
                for sample in samples
                for repeat in range(repeats)
                for row in [generation_row(sample, repeat, _answer(benchmark, sample, repeat))]
            ]
        )
        return publish_answers(repository, spool, described)


def _answer(benchmark: Benchmark, sample: Sample, repeat: int) -> Completion:
    prompt = rendered(benchmark.prompt(sample))
    labels = benchmark.labels(sample)
    fields: dict[str, Any] = {"prompt": prompt, "finish_reason": "stop"}
    if not labels:  # stop texts are cut off when the answer is scored
        return Completion(0, **fields, text=f"<think>5\n\nQ: </think>{generated(prompt, repeat)}")
    if benchmark.ranking(sample) == "text":
        return Completion(
            0, **fields, label_logprobs=(rolled(labels[0]),), label_is_greedy=(False,)
        )
    contexts = [rendered(context) for context in benchmark.contexts(sample)]
    pairs = list(zip(contexts or [prompt] * len(labels), labels, strict=True))
    found = [ranked(*pair) for pair in pairs]
    return Completion(
        0,
        **fields,
        contexts=tuple(contexts) or None,
        label_logprobs=tuple(logprob for logprob, _ in found),
        label_is_greedy=tuple(greedy for _, greedy in found),
    )


def names_of(benchmark_tasks: Mapping[str, Mapping[str, Any]]) -> tuple[str | None, ...]:
    """Return the configurations that tasks read."""
    return tuple(dict.fromkeys(config.get("dataset_name") for config in benchmark_tasks.values()))
