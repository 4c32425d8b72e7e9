"""The endpoint for Prometheus: off by default, on loopback, for its own names only."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from regrade.processes import metrics_endpoint as endpoint
from regrade.processes.metrics_state import AnswerSetState
from regrade.settings.errors import SettingsError
from tests.server_process import free_port

STATE = AnswerSetState(
    benchmark="gsm8k",
    model='org/"odd"\nname',
    answer_set="a" * 16,
    planned=100,
    stored=10,
    answers=40,
    failed=2,
    refused=1,
    prompt_tokens=4000,
    completion_tokens=800,
    in_engine=17,
    spool_rows=5,
    spool_bytes=900,
    commits=3,
    failed_commits=1,
    last_commit=1.7e9,
)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    port = free_port()
    monkeypatch.setenv(endpoint.PORT_VARIABLE, str(port))
    yield port
    endpoint.stop()


def scraped(address: str) -> dict[tuple[str, ...], float]:
    """Values by name and further labels."""
    text = httpx.get(address).raise_for_status().text
    values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            more = [v for k, v in sample.labels.items() if k in ("reason", "kind", "outcome")]
            values[(sample.name, *more)] = sample.value
    return values


def test_nothing_is_served_without_a_port(monkeypatch: pytest.MonkeyPatch):
    for text in ("", "0", "off"):
        monkeypatch.setenv(endpoint.PORT_VARIABLE, text)
        assert endpoint.show(lambda: [STATE]) is None


def test_every_count_is_a_metric(port: int):
    address = endpoint.show(lambda: [STATE])

    assert address == f"http://127.0.0.1:{port}/metrics"
    values = scraped(address)
    assert values.pop(("regrade_info",)) == 1
    assert values == {
        ("regrade_answers_planned",): 100,
        ("regrade_answers_stored",): 10,
        ("regrade_answers_left",): 50,
        ("regrade_requests_in_engine",): 17,
        ("regrade_spool_rows",): 5,
        ("regrade_spool_bytes",): 900,
        ("regrade_last_commit_timestamp_seconds",): 1.7e9,
        ("regrade_answers_total",): 40,
        ("regrade_failed_answers_total", "failed"): 2,
        ("regrade_failed_answers_total", "refused"): 1,
        ("regrade_tokens_total", "prompt"): 4000,
        ("regrade_tokens_total", "completion"): 800,
        ("regrade_commits_total", "published"): 3,
        ("regrade_commits_total", "failed"): 1,
    }


def test_a_later_evaluation_takes_the_place_of_an_earlier_one(port: int):
    address = endpoint.show(lambda: [STATE])
    endpoint.show(list)

    assert address is not None
    assert set(scraped(address)) == {("regrade_info",)}


@pytest.mark.parametrize(
    ("host", "shown"),
    [("", "127.0.0.1"), ("localhost", "127.0.0.1"), ("127.0.0.2", "127.0.0.2"), ("::1", "[::1]")],
)
def test_a_page_that_reaches_it_by_dns_rebinding_reads_nothing(
    port: int, host: str, shown: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(endpoint.HOST_VARIABLE, host)
    address = endpoint.show(lambda: [STATE])

    assert address == f"http://{shown}:{port}/metrics"
    refused = httpx.get(address, headers={"Host": f"attacker.example:{port}"})
    assert (refused.status_code, "gsm8k" in refused.text) == (403, False)
    for name in ("localhost", "127.0.0.1", shown):
        assert httpx.get(address, headers={"Host": f"{name}:{port}"}).status_code == 200


@contextmanager
def two_taken() -> Iterator[int]:
    """Take two ports, the second of which follows the first, which is returned; other tests take ports, too."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            first.listen()
            second.listen()
            yield port
            return


def test_a_port_that_is_taken_is_told_and_of_a_range_the_next_is_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    with two_taken() as port:
        monkeypatch.setenv(endpoint.PORT_VARIABLE, str(port))
        with pytest.raises(SettingsError, match=f"127.0.0.1:{port}"):
            endpoint.show(lambda: [STATE])

        monkeypatch.setenv(endpoint.PORT_VARIABLE, f"{port}-{port + 20}")
        assert endpoint.show(lambda: [STATE]) is not None
        endpoint.stop()

        monkeypatch.setenv(endpoint.PORT_VARIABLE, f"{port}-{port + 1}")
        assert endpoint.show(lambda: [STATE]) is None
        assert "are taken" in caplog.text


@pytest.mark.parametrize("text", ["x", "70000", "9467-9464", "1-2-3", "-1", "9464-"])
def test_a_port_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(endpoint.PORT_VARIABLE, text)

    with pytest.raises(SettingsError, match=endpoint.PORT_VARIABLE):
        endpoint.ports()
