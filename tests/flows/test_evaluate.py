"""`regrade evaluate` with real vLLM, a real Prefect server and real MLflow."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import psutil
import pytest

from regrade.jobs.time_spent import TimeSpent
from regrade.stats.speed import Speed
from tests.command_line import DEMO, Ran, regrade
from tests.prefect_fixtures import running_server

pytestmark = [pytest.mark.main, pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(600)]

LIMIT = 24
PARTS = ("mean", "p25", "p50", "p75", "p99")


@dataclass(frozen=True)
class Evaluated:
    answers: Path
    database: Path
    first: Ran
    environment: dict[str, str]
    seconds: float
    """Wall-clock of the first command."""

    @property
    def runs(self) -> int:
        """Number of runs in MLflow."""
        with sqlite3.connect(self.database) as database:
            return int(database.execute("select count(*) from runs").fetchone()[0])

    def set_of(self, benchmark: str) -> Any:
        return next(s for s in self.first.document["answer_sets"] if s["benchmark"] == benchmark)


def _evaluate(answers: Path, environment: dict[str, str], *, process: bool) -> Ran:
    return regrade(
        *("evaluate", "--config", DEMO / "demo.yaml", "--answers", answers, "--limit", str(LIMIT)),
        *("--goodput", "e2el=600s", "--json"),
        process=process,
        **environment,
    )


@pytest.fixture(scope="module")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that ends with these tests: to the end of `make test`, it would take seconds of a CPU for nothing."""
    with running_server(tmp_path_factory.mktemp("prefect-server")) as (url, _):
        yield url


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory, prefect_server: str) -> Evaluated:
    home = tmp_path_factory.mktemp("evaluated")
    environment = {
        "PREFECT_API_URL": prefect_server,
        "REGRADE_SPOOL": str(home / "spool"),
        "REGRADE_LOGS": str(home / "logs"),
        "REGRADE_CPU_NICE": "0",  # other lanes have the cores, too
    }
    started = time.monotonic()
    first = _evaluate(home / "answers", environment, process=True)
    seconds = time.monotonic() - started
    assert first.code == 0, first.err
    return Evaluated(home / "answers", home / "mlflow.db", first, environment, seconds)


def test_every_question_has_exactly_one_row(evaluated: Evaluated, tmp_path: Path):
    for benchmark in ("demo-arithmetic", "demo-choice"):
        assert evaluated.set_of(benchmark)["rows"] == LIMIT
        loaded = datasets.load_dataset(str(evaluated.answers), benchmark, cache_dir=str(tmp_path))
        (rows,) = loaded.values()
        assert len(set(rows["sample_id"])) == len(rows) == LIMIT
        assert len(set(rows["index"])) == LIMIT


def test_the_demo_model_is_well_above_chance_and_below_perfect(evaluated: Evaluated):
    for benchmark, chance in (("demo-arithmetic", 0.05), ("demo-choice", 0.25)):
        headline = next(s for s in evaluated.set_of(benchmark)["scores"] if s["headline"])
        metrics = headline["metrics"]
        assert metrics["n"] == LIMIT
        assert metrics["failed"] == 0
        assert chance + 0.1 < metrics["accuracy"] < 1
        assert 0 < metrics["accuracy_stderr"] < 0.15


def test_measurements_and_goodput_are_in_the_result_the_manifest_and_mlflow(evaluated: Evaluated):
    results = {
        answer_set["answer_set_id"]: Speed.model_validate(answer_set["speed"])
        for answer_set in evaluated.first.document["answer_sets"]
    }
    stored = {
        manifest["answer_set_id"]: Speed.model_validate(manifest["sessions"][-1]["speed"])
        for path in evaluated.answers.rglob("manifest.json")
        if (manifest := json.loads(path.read_text()))
    }
    with sqlite3.connect(evaluated.database) as database:
        asked = "SELECT key, value FROM metrics WHERE key LIKE 'generation/%'"
        tracked = set(database.execute(asked))

    assert stored == results
    assert len(results) == 2
    rates = {
        answer_set["answer_set_id"]: answer_set["tokens_per_second"]
        for answer_set in evaluated.first.document["answer_sets"]
    }
    for set_id, speed in results.items():
        scalars = speed.scalars()
        assert {(f"generation/{name}", value) for name, value in scalars.items()} <= tracked
        latencies = {f"{n}_{part}" for n in ("ttft", "e2el", "queue") for part in PARTS}
        load = {"preemptions", "kv_cache_usage_max", "prefix_hit_rate", "waiting_max"}
        assert latencies | load | {"running_max", "running_mean", "client_e2el_mean"} <= set(
            scalars
        )
        goodput = speed.goodput
        assert goodput is not None
        assert goodput.limits == {"e2el": 600}
        assert (goodput.answers, goodput.within, goodput.unmeasured) == (LIMIT, LIMIT, 0)
        assert scalars["goodput_share"] == 1.0
        assert rates[set_id] is None  # they shared the engine
        assert "goodput_per_second" not in scalars
    generated = next(speed for speed in results.values() if speed.tpot is not None)
    assert {f"{n}_{part}" for n in ("tpot", "itl") for part in PARTS} <= set(generated.scalars())


def test_the_parts_of_the_run_add_up_to_its_wall_clock(evaluated: Evaluated):
    document = evaluated.first.document
    spent = TimeSpent.model_validate(document["time_spent"])
    (load, _) = (answers["seconds"]["load"] for answers in document["answer_sets"])

    assert sum(spent.parts.values()) == pytest.approx(spent.seconds, rel=0.02)
    # Python starts before, and Prefect ends the run after.
    assert 0.7 * evaluated.seconds < spent.seconds < evaluated.seconds
    assert spent.parts["loading"] == pytest.approx(load, rel=0.1)
    assert {"filling", "draining"} <= spent.parts.keys()
    assert spent.tokens > spent.lost_tokens


def test_a_second_run_loads_no_model_and_gives_the_same_numbers_and_runs(evaluated: Evaluated):
    before_it = evaluated.runs
    again = _evaluate(evaluated.answers, evaluated.environment, process=False)
    assert again.code == 0, again.err
    assert evaluated.runs == before_it > 0
    assert "loading" not in again.err
    for before, now in zip(
        evaluated.first.document["answer_sets"], again.document["answer_sets"], strict=True
    ):
        assert now["generated"] == 0
        assert again.document["time_spent"] is None
        assert {"load", "generate"} <= before["seconds"].keys()
        assert not {"load", "generate"} & now["seconds"].keys()  # nothing is shown as done now
        assert now["answer_set_id"] == before["answer_set_id"]
        assert [s["metrics"] for s in now["scores"]] == [s["metrics"] for s in before["scores"]]
        assert now["mlflow_run_id"] == before["mlflow_run_id"]


def test_the_models_run_has_a_report_to_hand_on(evaluated: Evaluated):
    [report] = evaluated.database.parent.glob("mlartifacts/**/report.html")
    page = report.read_text()
    for benchmark in ("demo-arithmetic", "demo-choice"):
        assert evaluated.set_of(benchmark)["answer_set_id"] in page


def test_the_log_is_ours_alone(evaluated: Evaluated):
    lines = evaluated.first.err.splitlines()
    assert len(lines) < 40, evaluated.first.err
    assert any("demo-arithmetic" in line and "published" in line for line in lines)
    assert not any("Warning" in line or "Traceback" in line or "INFO" in line for line in lines)


def test_answers_can_be_scored_where_torch_and_vllm_cannot_be_imported(
    evaluated: Evaluated, tmp_path: Path
):
    runs = evaluated.runs
    for name in ("torch", "vllm"):
        package = tmp_path / name
        package.mkdir()
        (package / "__init__.py").write_text(f"raise ImportError('{name} is not here')")
    scored = regrade(
        *("score", "--answers", evaluated.answers, "--force", "--json"),
        process=True,
        PYTHONPATH=str(tmp_path),
        **evaluated.environment,
    )
    assert scored.code == 0, scored.err
    assert evaluated.runs == runs
    before = {s["answer_set_id"]: s["scores"] for s in evaluated.first.document["answer_sets"]}
    for answers in scored.document["answer_sets"]:
        known = before[answers["answer_set_id"]]
        assert [s["metrics"] for s in answers["scores"]] == [s["metrics"] for s in known]


def test_show_prints_an_answer_with_what_was_read_and_the_target(evaluated: Evaluated):
    answer_set = evaluated.set_of("demo-arithmetic")["answer_set_id"]
    shown = regrade(
        "show", answer_set[:8], "--answers", evaluated.answers, "--wrong", "--limit", "1"
    )
    assert shown.code == 0, shown.err
    assert "extracted" in shown.out
    assert "target" in shown.out
    assert "<|im_start|>user" in shown.out  # the prompt after the chat template


def test_no_process_is_left_behind(evaluated: Evaluated):
    home = str(evaluated.answers.parent)
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it ended meanwhile, or is another user's
            is_engine = "regrade.engines" in " ".join(process.cmdline())
            assert not (is_engine and home in str(process.environ())), process
