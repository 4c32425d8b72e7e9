from typing import Any
from uuid import uuid4

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.logging.handlers import APILogHandler
from prefect.settings import PREFECT_API_URL, temporary_settings

from regrade.comparing.gate_report import BenchmarkVerdict, GateReport
from regrade.orchestration.artifacts import read_report
from tasks.gate import show_verdict


def report(verdict: Any = "regression", **changes: Any) -> GateReport:
    one = BenchmarkVerdict(
        benchmark="gsm8k", verdict=verdict, reason="``` <b> | ```", max_drop=0.01
    )
    fields: dict[str, Any] = {
        "verdict": verdict,
        "summary": "it is ```json worse```",
        "base": "baseline",
        "candidate": "org/`model`",
        "error_rate": 0.05,
        "benchmarks": (one,),
    }
    return GateReport(**fields | changes)


@pytest.mark.prefect
def test_the_verdict_of_a_flow_run_is_read_back(prefect_server: str) -> None:
    @flow(name="gate-test")
    def gated() -> Any:
        from prefect.runtime import flow_run

        show_verdict(report())
        return flow_run.id

    with (
        temporary_settings({PREFECT_API_URL: prefect_server}),
        get_client(sync_client=True) as client,
    ):
        run_id = gated()

        assert read_report(client, run_id) == report()
        assert read_report(client, uuid4()) is None
        APILogHandler().flush()  # while PREFECT_API_URL is still set


@pytest.mark.parametrize(("verdict", "code"), [("pass", 0), ("regression", 1), ("cannot tell", 2)])
def test_a_verdict_is_an_exit_code(verdict: str, code: int) -> None:
    assert report(verdict).exit_code == code


def test_a_report_survives_json() -> None:
    assert GateReport.model_validate_json(report().model_dump_json()) == report()
