"""`measure-noise` with a test engine, and real flow, tasks, spool and repository."""

from pathlib import Path
from typing import Any

import pytest

from flows import asking_again
from flows.measure_noise import measure_noise
from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets, readable_sets
from regrade.comparing import job as jobs
from regrade.comparing.noise import NoiseReport
from regrade.engines.vllm_process.hardware import Hardware
from regrade.orchestration.artifacts import NOISE_KEY
from regrade.records.specification import REPETITIONS
from regrade.settings.errors import EngineError, SettingsError
from tests.limited_engine import CheckedTestEngine, Engines, demo_asked
from tests.prefect_fixtures import latest_page

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]
ROWS = 12


@pytest.fixture
def noise(flows_on_server: str, spool_home: Path, tmp_path: Path) -> Any:
    given = demo_asked(tmp_path, ROWS, "ones")

    def run(**parameters: Any) -> NoiseReport:
        found = measure_noise(**given, **parameters)
        assert isinstance(found, NoiseReport)
        return found

    return run


def test_one_start_asks_twice_in_another_order_and_nothing_is_doubled(
    noise: Any, engines: Engines, tmp_path: Path, prefect_server: str
):
    engines.answer = lambda request, _, in_flight: (
        "#### 2" if in_flight == 4 and "3" in str(request.prompt) else "#### 1"
    )
    report = noise(in_flight=4)

    (engine,) = engines.opened
    assert engine.limits == [None, 4]
    first, second = engine.asked[:ROWS], engine.asked[ROWS:]
    assert first != second
    assert sorted(map(str, first)) == sorted(map(str, second))
    (measured,) = report.floors
    floor = measured.floor
    assert (floor.n, floor.scores_differ, floor.texts_differ) == (ROWS, 1, 1)
    assert (floor.first.in_flight, floor.second.in_flight) == (None, 4)
    assert [example.kind for example in measured.examples] == ["right to wrong"]
    assert latest_page(prefect_server, NOISE_KEY).startswith("# Noise floor of regrade-demo")
    repository = LocalRepository(tmp_path / "answers")
    (stored,) = list_sets(repository, repository.head() or "")
    assert stored.manifest.answer_set_id == floor.first.answer_set_id
    assert len(stored.scores()) == 1

    assert report.time_spent is not None
    again = noise(in_flight=4)  # from stored answers
    assert (again.floors, again.time_spent) == (report.floors, None)
    assert len(engines.opened) == 1
    head = repository.head() or ""
    assert len(readable_sets(repository, head, tops=(REPETITIONS,))[0]) == 1


def test_stored_answers_are_the_first_asking_and_another_number_in_flight_asks_once_more(
    noise: Any, engines: Engines
):
    noise(in_flight=4)
    report = noise(in_flight=2)

    assert engines.opened[1].limits == [2]
    assert len(engines.opened[1].asked) == ROWS
    assert [m.floor.second.in_flight for m in report.floors] == [4, 2, 2]  # each two of three


def test_another_machine_asks_once_more(
    noise: Any, engines: Engines, monkeypatch: pytest.MonkeyPatch
):
    here = noise(in_flight=4)
    h200 = Hardware(device="NVIDIA H200", count=1)
    monkeypatch.setattr(asking_again, "hardware", lambda: h200)
    report = noise(in_flight=4)

    assert engines.opened[1].limits == [4]
    assert len(report.floors) == 3  # each two of three
    assert here.floors[0].floor in [measured.floor for measured in report.floors]


def test_another_version_of_vllm_asks_once_more_and_is_named(
    noise: Any, engines: Engines, monkeypatch: pytest.MonkeyPatch
):
    noise(in_flight=4)
    monkeypatch.setattr(asking_again, "versions", lambda: ["0.33.1"])
    engines.version = "0.33.1"
    report = noise(in_flight=4)

    assert engines.opened[1].limits == [4]
    between = [[f.floor.first.engine, f.floor.second.engine] for f in report.floors]
    before, now = "vllm 0.32.0", "vllm 0.33.1"
    assert between == [[before, before], [before, now], [before, now]]


def test_an_engine_that_ends_loses_nothing_and_the_same_command_continues(
    noise: Any, engines: Engines
):
    engines.dies_at = 4
    with pytest.raises(EngineError):
        noise(in_flight=4)
    engines.dies_at = None
    report = noise(in_flight=4)

    assert len(engines.opened[0].asked) == ROWS + 1
    assert len(engines.opened[1].asked) == ROWS - 1
    assert report.floors[0].floor.n == ROWS


def test_the_batch_invariant_mode_is_refused_on_a_cpu_before_anything_starts(
    noise: Any, engines: Engines, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(jobs.BATCH_INVARIANT, "1")
    with pytest.raises(SettingsError, match="for GPUs only.*cannot be tried here"):
        noise()
    assert engines.opened == []


@pytest.mark.parametrize(
    ("differing", "verdict"), [(0, "mode holds, bit by bit"), (1, "mode does NOT hold, bit by bit")]
)
def test_in_the_batch_invariant_mode_both_askings_are_new_and_a_single_other_text_refutes_it(
    noise: Any,
    engines: Engines,
    monkeypatch: pytest.MonkeyPatch,
    prefect_server: str,
    differing: int,
    verdict: str,
):
    noise(in_flight=4)
    engines.kind = CheckedTestEngine
    engines.answer = lambda request, _, in_flight: (
        "So #### 1" if differing and in_flight == 4 and "is 3?" in str(request.prompt) else "#### 1"
    )
    monkeypatch.setenv(jobs.BATCH_INVARIANT, "1")
    for module in (jobs, asking_again):
        monkeypatch.setattr(module, "runs_on_cpu", lambda: False)
    report = noise(in_flight=4)

    assert engines.opened[1].limits == [None, 4]
    assert len(engines.opened[1].asked) == 2 * ROWS
    assert len(report.floors) == 6  # each two of four askings
    (both,) = (
        m.floor
        for m in report.floors
        if m.floor.first.batch_invariant and m.floor.second.batch_invariant
    )
    assert (both.texts_differ, both.scores_differ) == (differing, 0)
    texts = f"{differing} of {ROWS} texts and 0 of 80 log-probabilities of tokens differ"
    assert f"the batch-invariant {verdict}: {texts}" in latest_page(prefect_server, NOISE_KEY)
