"""Results for model pages on the Hub: entries of `.eval_results/*.yaml` (https://huggingface.co/docs/hub/eval-results).

Only benchmarks in `TAKING_PART` have entries: the dataset shows a leaderboard, and its task and scale are known. A
result on a part of the benchmark, by other rules, or without public answers has no entry.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regrade.answers.result import Result
from regrade.answers.sets import AnswerSet
from regrade.exchange.exporting.scored import fresh_result
from regrade.settings.errors import SettingsError
from regrade.stats.metrics import average_name


@dataclass(frozen=True, slots=True)
class TakingPart:
    """Place of a benchmark's results on the Hub."""

    dataset: str
    """Dataset with the leaderboard; the questions have to come from it."""
    task: str
    """Id of the task in the dataset's `eval.yaml`."""
    scale: float
    """Value of a perfect result on the leaderboard."""
    questions: int
    """Questions of the whole benchmark."""

    @property
    def file(self) -> str:
        """File in the model's repository, named after the dataset as most models there have it."""
        name = self.dataset.rpartition("/")[2].lower().replace("-", "_")
        return f".eval_results/{name}.yaml"


# Tasks and scales as in the results of models on these leaderboards, such as MiniMaxAI/MiniMax-M2.5 at f710177 (GPQA) and
# Zyphra/ZAYA1-8B at 6186b08 (GPQA, MMLU-Pro), and in the table of github.com/huggingface/community-evals: all are percentages.
# The example in the Hub's documentation (`gpqa_diamond`, 0.412) is of another task and scale than the results there.
TAKING_PART = {
    "gsm8k_chat": TakingPart("openai/gsm8k", "gsm8k", 100.0, 1319),
    "mmlu_pro": TakingPart("TIGER-Lab/MMLU-Pro", "mmlu_pro", 100.0, 12032),
    "gpqa_diamond": TakingPart("Idavidrein/gpqa", "diamond", 100.0, 198),
}
"""Benchmarks that take part. HLE does not: ours has only the questions without images; nor does `gsm8k`, whose worked
examples are those of no published number."""


_OWN = frozenset({"dtype", "reasoning_parser", "trust_remote_code", "code"})
"""Engine settings with which a result is still that of the model: precision, reading of its answers, and the model's
code."""


@dataclass(frozen=True, slots=True)
class HubResult:
    """A published result of a model."""

    benchmark: str
    answer_set_id: str
    part: TakingPart
    value: float
    date: str
    dataset_revision: str
    source_url: str
    notes: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An answer set whose result is not published."""

    benchmark: str
    answer_set_id: str
    reason: str


def hub_results(
    model: str, sets: Sequence[AnswerSet]
) -> tuple[tuple[HubResult, ...], tuple[LeftOut, ...]]:
    """Return the results of a model that can be published, and the answer sets that cannot, with the reason.

    Args:
        model: Model on the Hub, `ORG/NAME`.
        sets: Its answer sets.

    Raises:
        SettingsError: If two answer sets have a result for the same task.
        DamagedAnswersError: If a scoring is damaged.
    """
    results: list[HubResult] = []
    left_out: list[LeftOut] = []
    for answers in sets:
        name = answers.manifest.specification.benchmark.name
        set_id = answers.manifest.answer_set_id
        problem = next(_problems(model, answers), None)
        if problem is None:
            try:
                results.append(_result(fresh_result(answers)))
                continue
            except SettingsError as error:
                problem = str(error)
        left_out.append(LeftOut(name, set_id, problem))
    tasks = [result.part for result in results]
    for part in tasks:
        if tasks.count(part) > 1:
            ids = ", ".join(
                f"{result.answer_set_id} ({result.benchmark})"
                for result in results
                if result.part == part
            )
            raise SettingsError(
                f"Several answer sets have a result for {part.dataset}, task {part.task}: {ids}. A model's page shows "
                "one: choose it with `--answer-set`."
            )
    return tuple(results), tuple(left_out)


def _problems(model: str, answers: AnswerSet) -> Iterator[str]:
    """Yield the reasons not to publish a result."""
    manifest, spec = answers.manifest, answers.manifest.specification
    part = TAKING_PART.get(spec.benchmark.name)
    if part is None:
        yield f"this benchmark does not take part; these do: {', '.join(TAKING_PART)}"
        return
    if spec.model.kind != "hub" or spec.model.name != model:
        yield f"its model is '{spec.model.name}' ({spec.model.kind}), not the repository '{model}' on the Hub"
    if spec.model.adapter is not None:
        yield "its model has an adapter, which is not part of the model's repository"
    if spec.model.quantization is not None:
        yield f"its model was quantized ({spec.model.quantization}), unlike the model's repository"
    if changed := sorted(spec.engine.keys() - _OWN):
        settings = ", ".join(f"{name} = {spec.engine[name]}" for name in changed)
        yield f"its engine had settings that change what the model computes ({settings}), unlike the model's repository"
    if spec.benchmark.source != part.dataset:
        yield f"its questions came from {spec.benchmark.source}, not from {part.dataset} on the Hub"
    if spec.benchmark.limit is not None:
        yield f"it has a limit of {spec.benchmark.limit:,} questions"
    elif manifest.n_samples != part.questions:
        yield f"it has {manifest.n_samples:,} questions, the benchmark has {part.questions:,}"
    if manifest.state != "complete" or manifest.rows != manifest.expected:
        yield f"it is not complete: {manifest.answered}"
    if answers.repository.url(answers.revision) is None:
        yield "its answers are in a folder, where nobody can look them up: publish them to a repository on the Hub"


def _result(scored: Result) -> HubResult:
    """Return the result of an answer set.

    Raises:
        SettingsError: If an answer has no score.
    """
    manifest, scoring = scored.answers.manifest, scored.file
    spec, overall = manifest.specification, scored.file.summary.overall
    part = TAKING_PART[spec.benchmark.name]
    if overall.accuracy is None or overall.n != manifest.expected:
        raise SettingsError(
            f"{overall.n:,} of {manifest.expected:,} answers have a score; the others failed, which is no result."
        )
    error = "not known"
    if overall.accuracy_stderr is not None:
        error = f"{part.scale * overall.accuracy_stderr:.2f}"
    notes = [
        f"standard error {error}",
        f"n = {overall.n:,}" + (f" ({average_name(spec.repeats)})" if spec.repeats > 1 else ""),
        f"scorer {scoring.scorer} v{scoring.version} ({scoring.source_hash})",
        f"{spec.prompt.n_shots}-shot, {spec.prompt.format}",
    ]
    if spec.sampling is not None and spec.method == "generate":
        notes.append(f"temperature {spec.sampling.temperature:g}")
        notes.append(f"max_tokens {spec.sampling.max_tokens}")
    notes.append(f"model revision {spec.model.revision[:12]}")
    return HubResult(
        benchmark=spec.benchmark.name,
        answer_set_id=manifest.answer_set_id,
        part=part,
        value=round(part.scale * overall.accuracy, 2),
        date=f"{manifest.updated_at:%Y-%m-%d}",
        dataset_revision=spec.benchmark.source_revision,
        source_url=str(scored.url),
        notes=", ".join(notes),
    )
