"""Times that benchmarks took last on this machine."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.durations import durations, remember
from regrade.answers.local import LocalRepository
from regrade.answers.manifest import Manifest
from regrade.cli.main import run
from tests.builders import session
from tests.stored import numbers, publish

NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGRADE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "durations"


def manifest(tmp_path: Path, name: str = "gsm8k", **changes: Any) -> Manifest:
    answers = publish(LocalRepository(tmp_path / "answers"), numbers(0, 3), benchmark=name)
    sessions = tuple(
        session(device="NVIDIA H100", rows=rows, generate_seconds=seconds)
        for rows, seconds in ((2, 60.0), (0, 5.0), (1, 140.0))
    )
    return answers.manifest.model_copy(update={"sessions": sessions, **changes})


def test_the_time_of_all_sessions_is_kept(tmp_path: Path):
    remember(manifest(tmp_path), NOW)

    kept = durations()["gsm8k"]

    assert (kept.rows, kept.seconds, kept.device, kept.finished_at) == (3, 205, "NVIDIA H100", NOW)


def test_a_run_on_some_questions_takes_no_time_of_a_whole_run(tmp_path: Path):
    whole = manifest(tmp_path)
    limited = whole.specification.benchmark.model_copy(update={"limit": 3})
    specification = whole.specification.model_copy(update={"benchmark": limited})

    remember(whole.model_copy(update={"specification": specification}), NOW)
    remember(whole.model_copy(update={"state": "incomplete"}), NOW)
    remember(whole.model_copy(update={"sessions": ()}), NOW)

    assert durations() == {}


def test_the_list_shows_the_time(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    remember(manifest(tmp_path), NOW)
    remember(manifest(tmp_path, "mmlu"), NOW)

    assert run(["benchmarks"]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert run(["benchmarks", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)

    assert "took 3 min 25 s for 3 answers of org/tiny (vllm on NVIDIA H100, 2026-11-22)" in shown
    assert "took 3 min 25 s (1 of 9 members) with org/tiny" in shown  # suite `base`
    by_name = {entry["name"]: entry["last_run"] for entry in document["benchmarks"]}
    assert by_name["gsm8k"]["seconds"] == 205
    assert by_name["gpqa_diamond"] is None


def test_a_file_that_is_no_time_is_left_out(
    tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture
):
    remember(manifest(tmp_path), NOW)
    (cache / "other.json").write_text("{")

    assert list(durations()) == ["gsm8k"]
    assert "'" + str(cache / "other.json") + "' is left out" in caplog.text


def test_a_cache_that_cannot_be_written_costs_a_line_of_the_log(
    tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture
):
    cache.parent.write_text("a file")

    remember(manifest(tmp_path), NOW)

    assert "the time of gsm8k is not kept" in caplog.text
