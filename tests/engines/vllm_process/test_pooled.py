"""Benchmarks in one stream of real vLLM, generated and ranked, compared with the same benchmarks one after the other."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from regrade.answers.spool import Spool
from regrade.engines.vllm_process.engine import VllmProcess
from regrade.jobs.generate import Filling, fill
from regrade.jobs.job import GenerationJob, make_job
from regrade.jobs.plan import PooledRequests
from regrade.jobs.plans_of_job import plans_of_all
from regrade.stats.speed import Speed
from tests.command_line import demo_parameters
from tests.engine_fixtures import FAST
from tests.engines.vllm_process.asking import opened

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]


def rows_of(spool: Spool) -> dict[str, dict[str, Any]]:
    names = ["sample_id", "text", "label_logprobs"]
    tables = (pq.read_table(file.path, columns=names) for file in spool.seal())
    return {row["sample_id"]: row for table in tables for row in table.to_pylist()}


def test_pooled_benchmarks_get_the_same_answers_in_fewer_steps(demo_model: Path, tmp_path: Path):
    given = demo_parameters()
    job = make_job(GenerationJob, given | {"model": str(demo_model), "engine": FAST, "limit": 30})
    plans = plans_of_all(job)
    asked = [plan.requests(plan.missing(set())) for plan in plans]
    rounds = [asked[:1], asked[1:], asked]
    streams = [PooledRequests(tuple(together)) for together in rounds]
    loaded = opened(plans[0].model, tmp_path / "vllm.log", FAST, *streams)
    measured: list[Speed] = []

    def measure(engine: VllmProcess) -> None:
        speed = engine.measure()
        assert speed is not None
        measured.append(speed)

    with ExitStack() as stack:
        spools = [stack.enter_context(Spool(tmp_path / str(n))) for n in range(4)]
        places = iter(spools)
        with loaded as engine:
            for together in rounds:
                engine.limit(None)  # empties the prefix cache
                fillings = [Filling(r, next(places), lambda _: None) for r in together]
                fill(fillings, engine, lambda _: measure(engine))
                measure(engine)
        found = [rows_of(spool) for spool in spools]

    for one, other in zip(found[:2], found[2:], strict=True):
        assert len(one) == len(other) == 30
        for name, row in one.items():
            assert other[name]["text"] == row["text"]
            assert other[name]["label_logprobs"] == pytest.approx(row["label_logprobs"], abs=1e-4)
    _, first, _, second, early, late, whole = measured
    assert whole.steps < first.steps + second.steps
    assert (first.requests, second.requests, whole.requests) == (30, 30, 60)
    assert 30 <= early.requests <= late.requests == 60
