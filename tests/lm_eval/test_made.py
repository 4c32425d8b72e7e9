"""Questions that a task makes with a tokenizer, as RULER's do: pinned, equal to the harness' own, scored by length."""

import json
import shutil
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lm_eval
import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from regrade.benchmarks import open_harness_task
from regrade.benchmarks.questions.harness import HarnessBenchmark
from regrade.jobs.job import GenerationJob
from regrade.jobs.plans_of_job import open_benchmarks, plans_of
from regrade.lm_eval.index import TaskEntry
from regrade.lm_eval.plan import task_manager
from regrade.models.base import ResolvedModel
from regrade.models.resolving import resolve_here
from regrade.scoring.score import score_answers
from regrade.settings.errors import ModelError, SettingsError
from regrade.settings.worker_limits import FOLDERS, STARTED_BY_WORKER, check_parameters
from tests.lm_eval.stand_in import StandIn
from tests.lm_eval.stored import SERVED, own_task, publish_task

Index = Mapping[str, TaskEntry]
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("nltk_data", "indexed")]
DEMO = Path(__file__).parents[2] / "infra/demo/regrade-demo"
WORDS = """\
class RandomWord:
    _categories = {
        name: [f"{name}{n}" for n in range(900)]
        for name in ("noun", "nouns", "adjective", "adjectives", "verb", "verbs")
    }
"""
OWN = """\
import random

from datasets import Dataset
from transformers import AutoTokenizer

RNG = random.Random(1)


def measured(pretrained=None, words=(), **_):
    tokenizer = AutoTokenizer.from_pretrained(pretrained, trust_remote_code=True)
    length = len(tokenizer("The question is how many words there are.").input_ids)
    rows = [{"q": f"{length} {RNG.random()} {word}"} for word in words]
    return {"test": Dataset.from_list(rows)}


def written(words=("x",), **_):
    return {"test": Dataset.from_list([{"q": word} for word in words])}
"""


@pytest.fixture(scope="module", autouse=True)
def _words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Words for RULER, here and in processes that score, if the package that brings them is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        if find_spec("wonderwords") is None:
            folder = tmp_path_factory.mktemp("packages")
            (folder / "wonderwords.py").write_text(WORDS)
            patch.syspath_prepend(folder)
        yield


@pytest.fixture
def demo() -> ResolvedModel:
    return resolve_here(str(DEMO))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Two tasks: one measures its questions with the tokenizer, one does not."""
    return making_tasks(tmp_path / "own", OWN, "measured", "written")


def making_tasks(folder: Path, code: str, *names: str) -> Path:
    """Write tasks whose questions are made by functions of their names."""
    for name in names:
        made_by = f"custom_dataset: !function code.{name}"
        own_task(folder, name, made_by, "generation_kwargs: {until: []}")
    (folder / "code.py").write_text(code)
    return folder


def made(task: str, model: ResolvedModel, **settings: Any) -> HarnessBenchmark:
    """Return the benchmark of a job with a task, opened for a model."""
    engine: dict[str, Any] = {"kind": "vllm"}
    if model is SERVED:
        engine = {"kind": "openai", "base_url": "http://127.0.0.1:9/v1"}
    job = GenerationJob.model_validate(
        {"model": "m", "limit": 20, "engine": engine, "lm_eval": {"tasks": [task], **settings}}
    )
    (plan,) = plans_of(job, model, open_benchmarks(job))
    assert isinstance(plan.benchmark, HarnessBenchmark)
    return plan.benchmark


def with_other_tokenizer(tmp_path: Path) -> Path:
    """Return a copy of the demo model that splits words in another way."""
    folder = tmp_path / "other"
    shutil.copytree(DEMO, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_bytes())
    tokenizer["model"]["merges"] = tokenizer["model"]["merges"][:100]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


@pytest.mark.parametrize(
    "lengths", [[1024], pytest.param([1024, 4096], marks=pytest.mark.slow)], ids=len
)
def test_questions_of_ruler_are_those_of_the_harness_and_scored_by_length(
    lengths: list[int],
    index: Index,
    demo: ResolvedModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from lm_eval.tasks._factory import TaskFactory

    monkeypatch.setenv("DISABLE_MULTIPROC", "1")
    repository = LocalRepository(tmp_path / "answers")
    benchmark = made("ruler_vt", demo, metadata=[f"max_seq_lengths={lengths}"])
    publish_task(benchmark, repository, tmp_path)
    (answers,) = list_sets(repository, repository.head())
    result = score_answers(answers, "lm_eval")
    assert result.table is not None

    manager = task_manager(index)
    manager._factory = TaskFactory(meta={"pretrained": str(DEMO), "max_seq_lengths": lengths})
    theirs = lm_eval.simple_evaluate(
        model=StandIn(),
        tasks=["ruler_vt"],
        task_manager=manager,
        bootstrap_iters=0,
        torch_random_seed=None,
    )
    samples = {sample["doc_id"]: sample for sample in theirs["samples"]["ruler_vt"]}
    assert len(samples) == 500 * len(lengths)
    rows = result.table.to_pylist()
    stored = [r for b in answers.batches(["index", "prompt"]) for r in b.to_pylist()]
    assert len(rows) == 20
    for row, question in zip(rows, stored, strict=True):
        sample = samples[question["index"]]
        assert question["prompt"] == sample["arguments"][0][0]
        length = str(sample["doc"]["max_length"])
        assert row["value"] == sample[length]
    found = {aggregate.name: aggregate.value for aggregate in result.file.aggregates}
    found |= {name: metric.value for name, metric in result.file.summary.metrics.items()}
    for length in map(str, lengths):
        asked = [samples[row["index"]] for row in stored]
        own = [s[length] for s in asked if str(s["doc"]["max_length"]) == length]
        assert found[f"{length},none"] == pytest.approx(sum(own) / len(own))
        assert len(own) == 20 / len(lengths)


def test_the_tokenizer_and_all_questions_are_part_of_the_identity(
    own: Path, demo: ResolvedModel, tmp_path: Path
) -> None:
    words = 'words=["a","b"]'
    benchmark = made("measured", demo, path=str(own), metadata=[words])
    again = made("measured", demo, path=str(own), metadata=[words])
    other = resolve_here(str(with_other_tokenizer(tmp_path)))
    elsewhere = made("measured", other, path=str(own), metadata=[words])
    longer = made("measured", demo, path=str(own), metadata=['words=["a","b","c"]'])

    parameters = benchmark.identity.parameters
    assert benchmark.identity == again.identity
    assert parameters["arguments"] == {"words": ["a", "b"]}
    assert len(parameters["tokenizer"]) == 64
    assert list(parameters["datasets"]) == ["measured"]
    assert benchmark.identity.source == "made"
    assert elsewhere.identity.parameters["tokenizer"] != parameters["tokenizer"]
    assert elsewhere.identity.source_revision != benchmark.identity.source_revision
    assert longer.identity.source_revision != benchmark.identity.source_revision


def test_a_named_tokenizer_asks_two_models_the_same(
    own: Path, demo: ResolvedModel, tmp_path: Path
) -> None:
    other = resolve_here(str(with_other_tokenizer(tmp_path)))
    settings = {"path": str(own), "metadata": ['words=["a"]'], "tokenizer": str(DEMO)}

    found = [made("measured", model, **settings).identity for model in (demo, other, SERVED)]

    assert found[0] == found[1] == found[2]
    assert found[0] == made("measured", demo, path=str(own), metadata=['words=["a"]']).identity


def test_a_tokenizer_that_a_task_does_not_load_is_no_part_of_its_identity(
    own: Path, demo: ResolvedModel, tmp_path: Path
) -> None:
    other = resolve_here(str(with_other_tokenizer(tmp_path)))

    found = [made("written", model, path=str(own)).identity for model in (demo, other, SERVED)]

    assert found[0].parameters["tokenizer"] is None
    assert found[0] == found[1] == found[2]


def test_models_with_the_same_tokenizer_share_the_questions(own: Path, demo: ResolvedModel) -> None:
    job = GenerationJob.model_validate(
        {"model": "m", "lm_eval": {"tasks": ["written"], "path": str(own)}}
    )
    opened = open_benchmarks(job)

    (first,), (second,) = (plans_of(job, demo, opened) for _ in range(2))

    assert first.benchmark is second.benchmark


def test_a_folder_of_questions_needs_no_tokenizer(own: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/test.jsonl").write_text('{"q": "1"}\n{"q": "2"}\n')

    benchmark = open_harness_task("lm_eval:measured", path=str(own), source=str(tmp_path / "data"))

    assert [benchmark.prompt(sample) for sample in benchmark.samples()] == ["1", "2"]
    assert "tokenizer" not in benchmark.identity.parameters


def test_a_model_without_tokenizer_on_this_machine_is_told_to_name_one() -> None:
    with pytest.raises(SettingsError, match="if the task needs one, name .*--lm-eval-tokenizer"):
        made("ruler_vt", SERVED)


def test_code_of_a_tokenizer_is_not_run(own: Path, tmp_path: Path, demo: ResolvedModel) -> None:
    folder = tmp_path / "coded"
    folder.mkdir()
    mark = tmp_path / "ran"
    (folder / "mine.py").write_text(f"open({str(mark)!r}, 'w')\n")
    (folder / "tokenizer_config.json").write_text(
        '{"auto_map": {"AutoTokenizer": ["mine.Mine", null]}, "tokenizer_class": "Mine"}'
    )

    with pytest.raises(SettingsError, match="its questions cannot be made"):
        made("measured", demo, path=str(own), tokenizer=str(folder))

    assert not mark.exists()


@pytest.mark.parametrize(
    ("task", "arguments", "problem"),
    [
        ("ruler_vt", ["pretrained=x"], "has 'pretrained'.*Give it as `lm_eval.tokenizer`"),
        ("ruler_vt", ["max_seq_lengths"], "expected `name=value`, such as `max_seq_lengths="),
        ("ruler_vt", ["a=1", "a=2"], "gives 'a' twice"),
        # at this length it would never end
        ("ruler_vt", ["max_seq_lengths=[512]"], "has 512. Give at least 1024 tokens"),
        ("gsm8k", ["a=1"], "are for tasks of the harness that make their questi"),
    ],
)
def test_arguments_that_a_task_cannot_take_are_refused(
    task: str, arguments: list[str], problem: str, demo: ResolvedModel
) -> None:
    with pytest.raises(SettingsError, match=problem):
        made(task, demo, metadata=arguments)


ADDRESS = "http://127.0.0.1:9/essays.txt"


@pytest.mark.parametrize(
    ("code", "named"),
    [
        (f"import httpx; httpx.get({ADDRESS!r})", ADDRESS),
        (f"import requests; requests.get({ADDRESS!r})", ADDRESS),
        # As `datasets` says it of RULER's essays, without an address.
        ("raise ConnectionError(\"Couldn't reach 'org/essays' on the Hub\")", "data"),
    ],
    ids=["httpx", "requests", "datasets"],
)
def test_a_task_whose_texts_are_not_reached_says_what_to_do(
    code: str, named: str, demo: ResolvedModel, tmp_path: Path
) -> None:
    folder = making_tasks(tmp_path / "far", f"def far(**_):\n    {code}\n", "far")
    says = (
        f"The task reads {named}, which this machine does not get; .*`--source lm_eval:far=FOLDER`"
    )

    with pytest.raises(SettingsError, match=says):
        made("far", demo, path=str(folder)).identity  # noqa: B018


def test_questions_of_ruler_that_were_made_elsewhere_need_no_network(tmp_path: Path) -> None:
    row = {"input": "Which city?", "outputs": ["Bern"], "max_length": 4096, "gen_prefix": "A:"}
    (tmp_path / "test.jsonl").write_text(json.dumps(row) + "\n")

    benchmark = open_harness_task("lm_eval:ruler_qa_squad", source=str(tmp_path))

    assert [benchmark.prompt(sample) for sample in benchmark.samples()] == ["Which city? A:"]
    assert [sample.target for sample in benchmark.samples()] == ["Bern"]


def test_a_tokenizer_that_is_not_there_is_refused(demo: ResolvedModel, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no folder"):
        made("ruler_vt", demo, tokenizer=str(tmp_path / "none"))
    with pytest.raises(ModelError, match="it has no tokenizer"):
        made("ruler_vt", demo, tokenizer=str(tmp_path))


def test_an_argument_may_not_name_a_file_that_a_worker_does_not_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STARTED_BY_WORKER, "run")
    monkeypatch.setenv(FOLDERS, str(tmp_path))

    def check(argument: str) -> None:
        job = {"model": "m", "lm_eval": {"tasks": ["ruler_vt"], "metadata": [argument]}}
        check_parameters(GenerationJob.model_validate(job))

    check("max_seq_lengths=[4096,8192]")
    check("dataset_name=multiple_choice")
    check(f"data_files={tmp_path}/own.json")
    for argument in ("data_files=/etc/passwd", 'data_files=["/etc/passwd"]', 'a={"b":"/etc"}'):
        with pytest.raises(SettingsError, match="is in none of the folders"):
            check(argument)
