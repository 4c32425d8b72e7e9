"""Every script of perf/ runs; the sizes are too small for meaningful figures."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from perf.gpu_check import NOT_RUN
from perf.measuring import PEERS_PYTHON
from tests.command_line import DATA, ROOT, run

pytestmark = pytest.mark.slow  # minutes on two cores

with_peers = pytest.mark.skipif(
    not PEERS_PYTHON.exists(), reason="the peers are not installed: infra/install-peers.sh"
)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGRADE_PERF_RESULTS", str(tmp_path))
    return tmp_path


def run_script(name: str, *arguments: str, codes: tuple[int, ...] = (0,), **more: str) -> None:
    """Run a script, with further variables."""
    ran = run([sys.executable, "-m", f"perf.{name}", *arguments], 2400, more)
    assert ran.code in codes, ran.out + ran.err


def rows_in(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a script's JSON file."""
    document = json.loads(file.read_text())
    assert document["machine"]["cores"] == os.cpu_count()
    rows: list[dict[str, Any]] = document["rows"]
    return rows


def rows_of(results: Path, name: str, *arguments: str) -> list[dict[str, Any]]:
    """Run a script and return the rows of its JSON file."""
    run_script(name, *arguments)
    return rows_in(results / f"{name}.json")


def test_scoring_reports_rate_memory_and_the_accuracy_that_was_generated(results: Path) -> None:
    (row,) = rows_of(results, "scoring", "--rows", "3000", "--repetitions", "1", "--no-peers")

    assert row["rows"] == 3000
    # 7 of 10 answers are right, but the scorer cannot extract all of them.
    assert 0.6 < row["accuracy"] < 0.75
    assert row["peak MiB"]["median"] > 10


def test_a_commit_is_measured_beside_this_tree(results: Path, tmp_path: Path) -> None:
    run_script(
        *("against", "HEAD", "--repetitions", "1"),
        *("--rows", "3000", "--programs", "2", "1", "--answers", "30"),
        codes=(0, 1),  # 1: slower, at sizes that say nothing
        TMPDIR=str(tmp_path),
    )
    rows = rows_in(results / "against.json")

    assert [row["scorer"] for row in rows] == ["number", "code", "math"]
    assert all(row["before, s"]["median"] > 0 and row["now, s"]["median"] > 0 for row in rows)
    assert not list(tmp_path.glob("regrade-against-*"))


def test_style_control_reports_how_far_raw_and_controlled_wins_are_off(results: Path) -> None:
    rows = rows_of(results, "style_control", "--simulations", "20")

    liking = [row for row in rows if row["by_length"]]
    assert all(float(row["raw"]) > 5 for row in liking)
    assert all(abs(float(row["style"])) < 2 for row in rows)


def test_viewing_reports_every_page_and_the_memory(results: Path) -> None:
    rows = rows_of(results, "viewing", "600")

    assert len(rows) == 13
    assert all(row["CPU ms"] < 5000 for row in rows[:-1])
    assert [row["page"] for row in rows if not row["goal"]] == ["text, first search"]
    assert rows[-1]["MiB"] > 50


def test_startup_reports_each_command(results: Path) -> None:
    rows = rows_of(results, "startup", "--only", "help", "list", "--repetitions", "1")

    assert [row["what"] for row in rows] == ["help", "list"]


@pytest.mark.vllm
@pytest.mark.timeout(900)
def test_planning_is_measured_without_and_with_a_context(results: Path) -> None:
    rows = rows_of(results, "planning", "--questions", "500", "--repetitions", "1")

    assert [row["max_model_len"] for row in rows] == ["from the prompts", 1024]
    for row in rows:
        assert row["questions"] == 500
        assert 0 < row["imported, s"] <= row["loads, s"] <= row["ready, s"]


@pytest.mark.vllm
@pytest.mark.timeout(2400)
def test_all_that_a_first_gpu_has_to_show_runs_on_a_cpu(
    results: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cache = str(tmp_path_factory.mktemp("cache"))
    run_script("gpu_check", "--questions", "4", "--minutes", "40", XDG_CACHE_HOME=cache)
    rows = rows_in(results / "gpu_check.json")

    assert not [row for row in rows if row["found"] == NOT_RUN]
    reached = {row["check"]: row["reached"] for row in rows}
    assert {
        "weights replaced in a running engine",
        "prompts read from the prefix cache",
        "images, qwen3_vl",
    } <= {*reached}
    assert [name for name, known in reached.items() if known == ""] == [
        "start-up",
        "device",
        "start-up again",
        "noise, usual, mode recorded as False",
        "rate against bare LLM.generate, 2,000 x 64 tokens",
        "rate against bare LLM.generate, 10,000 x 1 token",
    ]


def test_a_check_of_a_gpu_ends_in_time_and_says_what_was_not_run(results: Path) -> None:
    rows = rows_of(results, "gpu_check", "--minutes", "0")

    assert {row["found"] for row in rows} == {NOT_RUN}


def test_growth_is_measured_for_each_size(results: Path) -> None:
    rows = rows_of(results, "growth", "--only", "score", "--score", "500", "1000")

    assert [row["n"] for row in rows] == [500, 1000]


def test_a_commit_adds_as_much_to_a_long_history_as_to_a_short_one(results: Path) -> None:
    short, long = rows_of(results, "growth", "--only", "commits", "--commits", "100", "300")

    assert 0 < long["KiB"] < 2 * short["KiB"]
    assert {"list", "show", "verify", "list bare", "list sets"} <= long.keys()


@with_peers
def test_the_peers_grade_the_same_answers(results: Path) -> None:
    rows = rows_of(results, "scoring", "--rows", "500", "--peer-rows", "200", "--repetitions", "1")

    assert [row["tool"].split()[0] for row in rows] == ["regrade", "lm_eval", "inspect_ai"]
    assert all(row["accuracy"] > 0.4 for row in rows)


@pytest.mark.vllm
@pytest.mark.timeout(900)
def test_the_generate_stage_is_compared_with_bare_vllm(results: Path, demo_model: Path) -> None:
    (row,) = rows_of(
        results,
        "generate_stage",
        *("--model", str(demo_model), "--only", "20,000 x 1"),
        *("--requests", "100", "--repetitions", "1"),
    )

    assert row["n"] == 100
    assert row["ratio"]["median"] > 0


@pytest.mark.vllm
@pytest.mark.timeout(900)
@with_peers
@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data is not beside the repository")
def test_multiple_choice_gives_the_labels_of_lm_eval(results: Path, demo_model: Path) -> None:
    (row,) = rows_of(
        results,
        "multiple_choice",
        *("--model", str(demo_model), "--data", str(DATA), "--shots", "0"),
        *("--per-subject", "1", "--repetitions", "1"),
    )

    assert row["questions"] == 57
    assert row["differ, no tie"] == 0


@pytest.mark.vllm
@pytest.mark.timeout(900)
@with_peers
def test_the_server_is_compared_with_its_own_benchmark(results: Path, demo_model: Path) -> None:
    (row,) = rows_of(
        results,
        "server",
        *("--model", str(demo_model), "--in-flight", "4"),
        *("--requests", "32", "--max-tokens", "4", "--repetitions", "1"),
    )

    assert row["failed"] == 0


@pytest.mark.vllm
@pytest.mark.timeout(900)
def test_the_parallelism_table_tests_accuracy_in_pairs(results: Path, demo_model: Path) -> None:
    shutil.copy(ROOT / "infra/demo/data/arithmetic.jsonl", results / "all.jsonl")
    lines = (results / "all.jsonl").read_text().splitlines()[:20]
    (results / "few.jsonl").write_text("\n".join(lines) + "\n")

    run_script(
        *("server", "--table", "--table-in-flight", "1", "4", "--model", str(demo_model)),
        *("--questions", str(results / "few.jsonl")),
    )
    rows = rows_in(results / "parallelism.json")
    assert [row["questions"] for row in rows] == [20, 20]
    assert all(0 < row["McNemar, p"] <= 1 for row in rows)


def test_metering_measures_the_meter_and_the_statistics_that_it_adds_up(results: Path) -> None:
    sizes = ("--requests", "40", "--tokens", "4", "--repeats", "1")
    rows = rows_of(results, "metering", *sizes)

    assert [row["part"] for row in rows] == ["regrade's meter", "vLLM's statistics"]
    assert all(0 < row["share"]["median"] < 0.5 for row in rows)
