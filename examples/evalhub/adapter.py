"""An adapter of EvalHub: a job is an evaluation of regrade, or a scoring of stored answers."""

import time

from evalhub.adapter import (
    DefaultCallbacks,
    EvaluationResult,
    FrameworkAdapter,
    JobCallbacks,
    JobPhase,
    JobResults,
    JobSpec,
    JobStatus,
    JobStatusUpdate,
    MessageInfo,
)

import regrade
from regrade.results.results import Evaluation, ScoreResult
from regrade.settings.errors import RegradeError


class RegradeAdapter(FrameworkAdapter):
    """Runs a benchmark of regrade on the model of a job."""

    def run_benchmark_job(self, config: JobSpec, callbacks: JobCallbacks) -> JobResults:
        """Evaluate the model at the job's address; without one, score the stored answers of `answers`.

        Raises:
            ValueError: If the job names no answer repository, or is not of one answer set.
        """
        started = time.monotonic()
        if not config.parameters.get("answers"):
            raise ValueError(
                "The benchmark has no parameter 'answers': name the repository that keeps the answers, hf://datasets/ORG/NAME."
            )
        callbacks.report_status(
            JobStatusUpdate(
                status=JobStatus.RUNNING, phase=JobPhase.RUNNING_EVALUATION, progress=0.0
            )
        )
        evaluation = evaluate(config) if config.model.url else score(config)
        if len(evaluation.answer_sets) != 1:
            raise ValueError(
                f"'{config.benchmark_id}' of '{config.model.name}' has {len(evaluation.answer_sets)} answer sets, expected one: "
                "name one with the parameter 'answer_set'."
            )
        (answers,) = evaluation.answer_sets
        results = [result(found) for found in answers.scores]
        headline = next((found for found in answers.scores if found.headline), None)
        return JobResults(
            id=config.id,
            benchmark_id=config.benchmark_id,
            benchmark_index=config.benchmark_index,
            model_name=config.model.name,
            results=[found for found in results if found is not None],
            overall_score=None if headline is None else headline.metrics["accuracy"],
            num_examples_evaluated=0 if headline is None else int(headline.metrics["n"] or 0),
            duration_seconds=time.monotonic() - started,
            evaluation_metadata={
                "answers": evaluation.repository,
                "answer_set": answers.answer_set_id,
                "revision": answers.revision,
                "regrade_version": regrade.__version__,
            },
        )


def evaluate(config: JobSpec) -> Evaluation:
    """Ask the model at the job's address; answers that are stored are not asked again."""
    limit = {} if config.num_examples is None else {"limit": config.num_examples}
    engine = {"kind": "openai", "base_url": config.model.url}
    return regrade.evaluate(
        config.model.name, [config.benchmark_id], **(limit | {"engine": engine} | config.parameters)
    )


def score(config: JobSpec) -> Evaluation:
    """Score stored answers."""
    chosen = {"model": config.model.name, "benchmark": config.benchmark_id}
    return regrade.score(**(chosen | config.parameters))


def result(score: ScoreResult) -> EvaluationResult | None:
    """Return a scoring's accuracy with its interval; None if no answer has a value."""
    metrics = score.metrics
    if metrics["accuracy"] is None:
        return None
    low, high = metrics["accuracy_low"], metrics["accuracy_high"]
    return EvaluationResult(
        metric_name="accuracy" if score.headline else f"{score.scorer}/accuracy",
        metric_value=metrics["accuracy"],
        metric_type="accuracy",
        confidence_interval=None if low is None or high is None else (low, high),
        num_samples=int(metrics["samples"] or 0),
        metadata={
            "scorer": score.scorer,
            "version": score.version,
            "unparsed": metrics["unparsed"],
        },
    )


def main() -> int:
    """Run the job that EvalHub mounted, and report its results or its error."""
    adapter = RegradeAdapter()
    callbacks = DefaultCallbacks.from_adapter(adapter)
    try:
        callbacks.report_results(adapter.run_benchmark_job(adapter.job_spec, callbacks))
    except (RegradeError, ValueError) as error:
        problem = MessageInfo(message=str(error), message_code="regrade_error")
        failed = JobStatusUpdate(status=JobStatus.FAILED, error_message=problem)
        callbacks.report_status(failed)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
