"""Serve flows to a Prefect server in a separate process: `python -m tests.cli.trigger.served`."""

import time

from prefect import flow, get_run_logger, serve
from prefect.artifacts import create_progress_artifact

from flows.score_answers import score_answers
from regrade.comparing.gate_report import BenchmarkVerdict, GateReport, Verdict
from regrade.orchestration.artifacts import show
from regrade.settings import GateSettings
from tasks.gate import show_baseline, show_verdict


@flow(name="stand-in")
def stand_in(
    model: str,
    gate: GateSettings | None = None,
    verdict: Verdict | None = None,
    seconds: float = 0,
    problem: str = "",
    page: str = "",
    created: str = "",
) -> None:
    """Log, wait, fail and write a verdict, a new baseline or a page with this key, as the parameters say."""
    get_run_logger().info("generating answers of %s", model)
    create_progress_artifact(50.0, description="5 of 10 answers")
    time.sleep(seconds)
    if problem:
        raise ValueError(problem)
    if created:
        show_baseline(created)
    if page:
        show(page, f"| the {page} |\n\n![plot](data:image/png;base64,AA)", "a page")
    if verdict is not None and gate is not None:
        one = BenchmarkVerdict(
            benchmark="gsm8k", verdict=verdict, reason="seen", max_drop=gate.max_drop / 100
        )
        show_verdict(
            GateReport(
                verdict=verdict,
                summary=f"{model}: {verdict}",
                base=gate.baseline,
                candidate=model,
                error_rate=0.05,
                benchmarks=(one,),
            )
        )


if __name__ == "__main__":
    serve(stand_in.to_deployment("stand-in"), score_answers.to_deployment("score-here"))
