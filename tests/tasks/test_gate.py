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

REPORT = GateReport(
    verdict="regression",
    summary="it is ```json worse```",
    base="baseline",
    candidate="org/`model`",
    error_rate=0.05,
    benchmarks=(
        BenchmarkVerdict(
            benchmark="gsm8k", verdict="regression", reason="``` <b> | ```", max_drop=0.01
        ),
    ),
)


@pytest.mark.prefect
def test_the_verdict_of_a_flow_run_is_read_back(prefect_server: str) -> None:
    @flow(name="gate-test")
    def gated() -> Any:
        from prefect.runtime import flow_run

        show_verdict(REPORT)
        return flow_run.id

    with (
        temporary_settings({PREFECT_API_URL: prefect_server}),
        get_client(sync_client=True) as client,
    ):
        run_id = gated()

        assert read_report(client, run_id) == REPORT
        assert read_report(client, uuid4()) is None
        APILogHandler().flush()  # while PREFECT_API_URL is still set
