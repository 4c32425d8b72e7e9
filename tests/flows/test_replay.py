"""Replays as a flow: two models read stored answers; what is stored is not read again, and a run that ended is continued."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from flows.replay_answers import replay_answers
from perf.workloads import checkpoint
from regrade.answers.local import LocalRepository
from regrade.comparing.replay import Replay
from regrade.engines.base import EngineInfo
from regrade.engines.vllm import VllmEngine
from regrade.jobs.replay import ReplayJob
from regrade.models.base import ResolvedModel
from regrade.records import Completion, Request
from regrade.settings.errors import EngineError, SettingsError
from tasks.replay import plans_of_replay
from tests.builders import row
from tests.command_line import DEMO
from tests.stored import publish

pytestmark = pytest.mark.prefect
ROWS = 6
MODEL = DEMO / "regrade-demo"


class ReadingEngine:
    """Test engine that reads answers: each token costs half a nat, of another model or version more. It may end before it is done."""

    def __init__(
        self, settings: VllmEngine, model: ResolvedModel, version: str, most: int | None
    ) -> None:
        self.info = EngineInfo("vllm", version, "cpu", "float32", 512, None, 1.0)
        self.settings, self.model, self._most = settings, model.identity.name, most
        self.read: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        own = self.model == MODEL.name and self.info.version == "0"
        for number, request in enumerate(requests):
            if number == self._most:
                raise EngineError("The engine ended.", "", False)
            assert request.stored is not None
            assert not request.labels
            self.read.append(str(request.prompt))
            tokens = request.stored.tokens or ()
            logprobs = (-0.5 if own else -0.75,) * len(tokens)
            yield [
                Completion(
                    request.key,
                    "",
                    label_logprobs=(sum(logprobs),),
                    token_ids=tokens,
                    token_logprobs=logprobs,
                    token_is_greedy=(own,) * len(tokens),
                )
            ]


class Replaying:
    """A repository with answers of the demo model, and the engines that read them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engines: list[ReadingEngine] = []
        self.most: int | None = None
        self.version = "0"
        self.repository = LocalRepository(folder / "answers")
        model = VllmEngine().resolve(str(MODEL))
        computed = VllmEngine().identity(model, truncate=False)
        rows = [row(number, token_ids=[4, 5, 6]) for number in range(ROWS)]
        self.answers = publish(self.repository, rows, model=model.identity, engine=computed)

        def opened(settings: VllmEngine, model: ResolvedModel, **_: Any) -> ReadingEngine:
            self.engines.append(ReadingEngine(settings, model, self.version, self.most))
            return self.engines[-1]

        monkeypatch.setattr(VllmEngine, "open", opened)

    @property
    def named(self) -> dict[str, Any]:
        """Parameters that name the answers."""
        return {"answer_set": self.answers.manifest.answer_set_id, "answers": self.repository.uri}

    def run(self, **parameters: Any) -> Replay:
        result = replay_answers(**self.named | parameters)
        assert isinstance(result, Replay)
        return result


@pytest.fixture
def replaying(
    flows_on_server: str, spool_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Replaying:
    return Replaying(tmp_path, monkeypatch)


def test_two_models_read_the_answers_once_and_the_model_that_answered_is_the_same_as_itself(
    replaying: Replaying, tmp_path: Path
) -> None:
    other = checkpoint(MODEL, tmp_path / "other", 1)

    found = replaying.run(own_model=str(MODEL), model=str(other))

    assert [len(engine.read) for engine in replaying.engines] == [2 * ROWS, ROWS]
    assert set(replaying.engines[0].read) == {f"What is {n}?" for n in range(ROWS)}
    assert (found.same, found.difference.value) == (False, -0.25)
    assert (found.answers, found.tokens, found.parted) == (ROWS, 3 * ROWS, 1.0)

    again = replaying.run(own_model=str(MODEL), model=str(other))
    itself = replaying.run(own_model=str(MODEL), model=str(MODEL))

    assert found.time_spent is not None
    assert again == found.model_copy(update={"time_spent": None})
    assert [len(engine.read) for engine in replaying.engines[2:]] == [ROWS]  # by itself, once more
    assert itself.same
    assert itself.own.replay_id == found.own.replay_id != itself.other.replay_id


def test_a_replay_that_ended_early_goes_on_where_it_was(
    replaying: Replaying, tmp_path: Path
) -> None:
    other = checkpoint(MODEL, tmp_path / "other", 1)
    replaying.most = ROWS + 1
    with pytest.raises(EngineError):
        replaying.run(own_model=str(MODEL), model=str(other))

    replaying.most = None
    found = replaying.run(own_model=str(MODEL), model=str(other))

    assert [len(engine.read) for engine in replaying.engines] == [ROWS + 1, ROWS - 1, ROWS]
    assert (found.answers, found.left_out) == (ROWS, {})


def test_the_same_model_under_other_settings_needs_no_second_name(replaying: Replaying) -> None:
    found = replaying.run(model=str(MODEL), engine={"kind": "vllm", "kv_cache_dtype": "fp8"})

    own, other = replaying.engines
    assert (own.settings.kv_cache_dtype, other.settings.kv_cache_dtype) == ("auto", "fp8")
    assert found.other.engine == {**found.own.engine, "kv_cache_dtype": "fp8"}


def test_another_version_of_vllm_reads_again_if_asked_and_is_compared_with_what_is_stored(
    replaying: Replaying,
) -> None:
    before = replaying.run(model=str(MODEL))
    replaying.version = "1"
    stored = replaying.run(model=str(MODEL))
    assert stored == before.model_copy(update={"time_spent": None})

    found = replaying.run(model=str(MODEL), reuse={"fresh": True})

    assert [len(engine.read) for engine in replaying.engines] == [2 * ROWS, ROWS, ROWS]
    assert before.same
    assert (found.same, found.difference.value) == (False, -0.25)
    assert (found.own, found.other.replay_id) == (before.own, before.other.replay_id)
    assert [*found.own.ran_on, *found.other.ran_on] == [
        f"vllm {version}, float32, on cpu" for version in ("0", "1")
    ]


def test_each_precision_and_quantisation_is_a_replay_of_its_own(replaying: Replaying) -> None:
    given = ({}, {"dtype": "float16"}, {"quantization": "fp8"}, {"kv_cache_dtype": "fp8"})
    plans = []
    for settings in given:
        engine = VllmEngine.model_validate(settings)
        job = ReplayJob(model=str(MODEL), own_model=str(MODEL), engine=engine, **replaying.named)
        _, [(own, _), (_, plan)] = plans_of_replay(job)
        assert (own.engine.dtype, own.engine.quantization) == ("auto", None)
        plans.append(plan.specification)

    assert len({plan.answer_set_id for plan in plans}) == len(given)
    own_dtype = plans[0].engine["dtype"]
    assert [plan.engine["dtype"] for plan in plans] == [own_dtype, "float16", own_dtype, own_dtype]
    assert [plan.model.quantization for plan in plans] == [None, None, "fp8", None]


def test_a_model_that_did_not_give_the_answers_is_no_measure(
    replaying: Replaying, tmp_path: Path
) -> None:
    other = checkpoint(MODEL, tmp_path / "other", 1)

    with pytest.raises(SettingsError, match="does not compute what the model of the answers did"):
        replaying.run(own_model=str(other), model=str(MODEL))
    with pytest.raises(SettingsError, match="`own_model`"):
        replaying.run()
    assert not replaying.engines
