"""Margins that earlier starts measured."""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_answers
from regrade.answers.spool import Spool
from regrade.stats.speed import GIB, EngineMemory
from regrade.tuning.plan.plan import Margin, Target
from regrade.tuning.plan.planner import Start, margin_for, margin_of, starts_in
from regrade.tuning.plan.request import PlanRequest
from tests.builders import description, row, session

DAY = datetime(2026, 11, 20, tzinfo=UTC)
H100 = "NVIDIA H100 80GB HBM3"


def start(model: str, gib: float, *, eager: bool = False) -> Start:
    return Start(model=model, device=H100, at=DAY, other=int(gib * GIB), eager=eager)


def test_without_a_start_a_tenth_of_the_gpu_is_assumed_and_says_so():
    margin = margin_of([], model="org/a", memory=80 * GIB, eager=False)

    assert (margin.bytes, margin.measured) == (8 * GIB, False)
    assert "8.0 GiB assumed (10 % of the GPU)" in margin.source


def test_the_largest_margin_of_this_model_replaces_it():
    earlier = [start("org/a", 3), start("org/a", 4), start("org/b", 6)]

    margin = margin_of(earlier, model="org/a", memory=80 * GIB, eager=False)

    assert (margin.bytes, margin.measured) == (4 * GIB, True)
    assert (
        f"4.0 GiB measured on {H100} (2 starts of this model, the largest, 2026-11-20)"
        in margin.source
    )


def test_starts_of_other_models_count_if_this_one_was_not_started():
    margin = margin_of([start("org/b", 6)], model="org/a", memory=80 * GIB, eager=False)

    assert (margin.bytes, margin.measured) == (6 * GIB, True)
    assert "the start of other models" in margin.source


def test_a_start_without_cuda_graphs_says_nothing_of_one_with_them():
    margin = margin_of([start("org/a", 1, eager=True)], model="org/a", memory=80 * GIB, eager=False)

    assert not margin.measured


def memory(**changes) -> EngineMemory:
    fields = {
        "kv_cache_tokens": 1000,
        "kv_cache_concurrency": 2.0,
        "weights": 16 * GIB,
        "kv_cache": 50 * GIB,
        "usable": 73 * GIB,
        "max_num_batched_tokens": 8192,
        "max_num_seqs": 256,
    }
    return EngineMemory(**(fields | changes))


def test_what_is_neither_weights_nor_kv_cache_was_measured():
    assert memory().other == 7 * GIB


def test_a_kv_cache_of_a_given_size_measures_nothing():
    assert memory(usable=None).other is None


def publish_session(repository: LocalRepository, model: str, device: str, **changes) -> None:
    """Publish an answer set that a session on a device generated."""
    begun = session(
        started_at=DAY,
        device=device,
        engine_settings={"enforce_eager": False},
        load_seconds=40.0,
        **changes,
    )
    described = description(3, model=model)
    with tempfile.TemporaryDirectory() as folder, Spool(Path(folder) / "spool") as spool:
        begin_session(spool, repository.uri, described, begun)
        spool.append([row(number) for number in range(3)])
        publish_answers(repository, spool, described)


def test_starts_are_read_from_the_sessions_of_this_kind_of_gpu(repository: LocalRepository):
    assert starts_in(repository, "h100") == []
    publish_session(repository, "org/a", H100, memory=memory())
    publish_session(repository, "org/b", "NVIDIA L40S", memory=memory())
    publish_session(repository, "org/c", H100)

    found = starts_in(repository, "h100")

    assert [(entry.model, entry.other) for entry in found] == [("org/a", 7 * GIB)]


def test_a_plan_for_gpus_that_were_started_before_takes_what_was_measured(
    repository: LocalRepository,
):
    publish_session(repository, "org/a", H100, memory=memory())
    request = PlanRequest(model="org/a", gpu="h100", answers=repository.uri)

    def margin(gpu: str) -> Margin:
        target = Target(gpu=gpu, gpus=1, memory=80 * GIB, usable=73 * GIB)
        found, notes = margin_for(request, "org/a", target)
        assert notes == ()
        return found

    assert (margin("h100").bytes, margin("h100").measured) == (7 * GIB, True)
    assert (margin("l40s").bytes, margin("l40s").measured) == (8 * GIB, False)


def test_a_repository_that_cannot_be_read_is_a_note(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("no answer repository")
    request = PlanRequest(model="org/a", gpu="h100", answers=str(tmp_path))
    target = Target(gpu="h100", gpus=1, memory=80 * GIB, usable=73 * GIB)

    margin, notes = margin_for(request, "org/a", target)

    assert not margin.measured
    assert len(notes) == 1
    assert notes[0].startswith("Earlier starts were not read: ")
