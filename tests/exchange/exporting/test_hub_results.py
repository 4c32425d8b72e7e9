"""`regrade publish-results` against a Hub over HTTP: what is published, what is not, and whose entries stay."""

import dataclasses
from itertools import pairwise
from typing import Any

import pytest
import yaml
from huggingface_hub import HfApi, parse_eval_result_entries

from regrade.answers.hub import HubRepository
from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from regrade.exchange.exporting.hub_results import TAKING_PART, TakingPart, hub_results
from regrade.records.specification import (
    AdapterIdentity,
    BenchmarkIdentity,
    ModelIdentity,
    PromptIdentity,
)
from regrade.settings import SamplingParams
from tests.builders import row
from tests.command_line import Ran, regrade
from tests.hub_server.fixtures import Hub
from tests.stored import again, numbers, publish, score

FILE = ".eval_results/gsm8k.yaml"


def benchmark(name: str = "gsm8k", **changes: Any) -> BenchmarkIdentity:
    fields: dict[str, Any] = {
        "name": name,
        "version": 1,
        "source": "openai/gsm8k",
        "source_revision": "c" * 40,
        "config": "main",
        "split": "test",
    }
    return BenchmarkIdentity(**(fields | changes))


PROMPT = PromptIdentity(format="completion", template="{{ question }}", n_shots=8)


@pytest.fixture(autouse=True)
def short_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    """GSM8K has 40 questions here."""
    assert (
        "gsm8k" not in TAKING_PART
    )  # eight examples of its own: comparable with nothing on a leaderboard
    part = TakingPart("openai/gsm8k", "gsm8k", 100.0, 40)
    for name in ("gsm8k", "gsm8k_chat"):
        monkeypatch.setitem(TAKING_PART, name, part)


def on_hub(name: str = "org/model", **changes: Any) -> ModelIdentity:
    return ModelIdentity(name=name, kind="hub", revision="a" * 40, **changes)


class Team:
    """A team with answers on the Hub, and a model there."""

    def __init__(self, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hub, self.model = hub, f"{hub.user}/good-model"
        self.api = HfApi(endpoint=hub.endpoint, token=hub.token)
        self.api.create_repo(self.model)
        self.answers = HubRepository(hub.repo_id, endpoint=hub.endpoint, token=hub.token)
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        monkeypatch.setenv("HF_TOKEN", hub.token)
        monkeypatch.setenv("REGRADE_ANSWERS", self.answers.uri)

    def evaluate(self, wrong: int = 10, **changes: Any) -> str:
        rows = [row(n, f"#### {n + 1}") if n < wrong else row(n) for n in range(40)]
        fields = {"benchmark": benchmark(), "prompt": PROMPT, "model": on_hub(self.model)}
        answers = publish(self.answers, rows, **fields | changes)
        score(answers)
        return answers.manifest.answer_set_id

    def publish(self, *options: str) -> Ran:
        return regrade("publish-results", self.model, *options)

    def file(self, path: str = FILE, revision: str = "main") -> Any:
        repo = self.hub.store.repos["models", self.model]
        entry = repo.at(revision).tree.get(path)
        return None if entry is None else yaml.safe_load(entry.content)


@pytest.fixture
def team(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Team:
    return Team(hub, monkeypatch)


def test_a_result_is_committed_with_its_source_error_and_settings(team: Team):
    set_id = team.evaluate()
    document = team.publish("--commit", "--json").document
    [entry] = parse_eval_result_entries(team.file())
    assert (entry.dataset_id, entry.task_id, entry.value) == ("openai/gsm8k", "gsm8k", 75.0)
    assert entry.dataset_revision == "c" * 40
    head = team.answers.head()
    assert entry.source_url is not None
    assert entry.source_url.startswith(
        f"{team.hub.endpoint}/datasets/{team.hub.repo_id}/tree/{head}/answers/gsm8k/"
    )
    assert entry.source_url.endswith(set_id)
    assert entry.notes is not None
    for part in ("standard error 6.93", "n = 40", "scorer number v3 (", "8-shot, completion"):
        assert part in entry.notes
    assert "/commit/" in document["url"]


def test_gpqa_diamond_is_published_as_the_task_that_models_have_there(
    team: Team, monkeypatch: pytest.MonkeyPatch
):
    part = dataclasses.replace(TAKING_PART["gpqa_diamond"], questions=40)
    monkeypatch.setitem(TAKING_PART, "gpqa_diamond", part)
    team.evaluate(benchmark=benchmark("gpqa_diamond", source="Idavidrein/gpqa"))
    assert team.publish("--commit").code == 0
    [entry] = parse_eval_result_entries(team.file(".eval_results/gpqa.yaml"))
    assert (entry.dataset_id, entry.task_id, entry.value) == ("Idavidrein/gpqa", "diamond", 75.0)


def test_nothing_is_written_unless_asked_for(team: Team):
    team.evaluate()
    ran = team.publish()
    assert ran.code == 0
    assert "value: 75.0" in ran.out
    assert "Nothing is written yet" in ran.out
    assert team.file() is None
    assert team.publish("--answer-set", "good-model").out == ran.out  # by its model


def test_a_pull_request_leaves_the_main_branch_as_it_is(team: Team):
    team.evaluate()
    assert f"/{team.model}/discussions/1" in team.publish("--pull-request").out
    assert team.file() is None
    assert team.file(revision="refs/pr/1")[0]["value"] == 75.0


def test_a_second_run_writes_nothing_and_a_new_result_replaces_ours(team: Team):
    first = team.evaluate()
    assert team.publish("--commit", "--answer-set", first).code == 0
    before = team.hub.store.repos["models", team.model].branches["main"]
    again_ = team.publish("--commit", "--answer-set", first)
    assert (again_.code, "has these results already" in again_.out) == (0, True)
    assert team.hub.store.repos["models", team.model].branches["main"] == before
    second = team.evaluate(wrong=4, sampling=SamplingParams(temperature=0.5))
    assert team.publish("--commit", "--answer-set", second).code == 0
    assert [entry["value"] for entry in team.file()] == [90.0]


def test_entries_of_others_are_kept_and_replaced_only_on_request(team: Team):
    team.evaluate()
    task = {"id": "openai/gsm8k", "task_id": "gsm8k"}
    near = f"{team.hub.endpoint}/datasets/{team.hub.repo_id}-2/tree/main"  # another repository
    theirs = {"dataset": task, "value": 80.0, "source": {"url": near}}
    other = {"dataset": {"id": "org/other", "task_id": "default"}, "value": 1.5}

    def put(path: str, entries: list[Any]) -> None:
        content = yaml.safe_dump(entries).encode()
        team.api.upload_file(path_or_fileobj=content, path_in_repo=path, repo_id=team.model)

    put(FILE, [other, theirs])
    refused = team.publish("--commit")
    assert (refused.code, "`--replace` replaces it" in refused.err) == (2, True)
    assert team.publish("--commit", "--replace").code == 0
    assert [entry["value"] for entry in team.file()] == [1.5, 75.0]
    put(".eval_results/model-card.yaml", [theirs])
    twice = team.publish("--commit", "--replace")
    assert (twice.code, "remove that entry first" in twice.err) == (2, True)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            "- &a [x]\n" + "".join(f"- &{n} [*{b}, *{b}]\n" for b, n in pairwise("abcdef")),
            "aliases",
        ),
        ("[" * 1_000, "it is not YAML"),
    ],
)
def test_entries_of_which_a_few_bytes_stand_for_any_number_are_refused(
    team: Team, content: str, says: str
):
    team.evaluate()
    team.api.upload_file(path_or_fileobj=content.encode(), path_in_repo=FILE, repo_id=team.model)
    ran = team.publish("--commit")
    assert (ran.code, says in ran.err) == (2, True)


def test_two_settings_of_a_benchmark_have_to_be_chosen_between(team: Team):
    ids = [team.evaluate(), team.evaluate(sampling=SamplingParams(temperature=0.5))]
    ran = team.publish()
    assert ran.code == 2
    assert all(set_id in ran.err for set_id in ids)
    assert "`--answer-set`" in ran.err


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"benchmark": benchmark("sums")}, "does not take part"),
        ({"benchmark": benchmark(limit=40)}, "limit of 40"),
        ({"benchmark": benchmark(source="local")}, "came from local"),
        (
            {"model": ModelIdentity(name="org/model", kind="local", revision="a" * 64)},
            "its model is 'org/model' (local)",
        ),
        ({"model": on_hub(quantization="fp8")}, "was quantized (fp8)"),
        (
            {"model": on_hub(adapter=AdapterIdentity(name="org/lora", revision="d" * 40))},
            "has an adapter",
        ),
        (
            {"engine": {"dtype": "float16", "rope_scaling": {"rope_type": "yarn"}}},
            "(rope_scaling = {'rope_type': 'yarn'})",
        ),
        ({}, "publish them to a repository on the Hub"),  # its answers are in a folder
    ],
)
def test_a_result_that_may_belong_to_something_else_is_not_published(
    repository: LocalRepository, changes: dict[str, Any], reason: str
):
    fields = {"benchmark": benchmark(), "model": on_hub()}
    answers = publish(repository, numbers(0, 40), **fields | changes)
    score(answers)
    results, [left] = hub_results("org/model", [again(answers)])
    assert not results
    assert reason in left.reason


def test_precision_and_the_parser_of_reasoning_are_the_models_own(team: Team):
    team.evaluate(engine={"dtype": "float32", "reasoning_parser": "deepseek_r1"})
    results, left = hub_results(team.model, list_sets(team.answers, str(team.answers.head())))
    assert (len(results), left) == (1, ())


def test_incomplete_failed_and_unscored_runs_are_not_published(team: Team):
    fields = {"benchmark": benchmark(), "model": on_hub(team.model)}
    failed = row(39, "x", error="too long", error_permanent=True) | {"text": None}
    cases = [
        ([*numbers(0, 30)], "it has 30 questions"),
        ([*numbers(0, 39), failed], "39 of 40 answers have a score"),
        (numbers(0, 40), "no up-to-date scoring"),
    ]
    for number, (rows, reason) in enumerate(cases):
        changes = fields | {"sampling": SamplingParams(seed=number, temperature=1.0)}
        answers = publish(team.answers, rows, **changes)
        if number < 2:
            score(answers)
        _, [left] = hub_results(team.model, [again(answers)])
        assert reason in left.reason


def test_a_token_that_may_not_write_is_named(team: Team, monkeypatch: pytest.MonkeyPatch):
    team.evaluate()
    monkeypatch.setenv("HF_TOKEN", team.hub.read_token)
    ran = team.publish("--commit")
    assert ran.code == 2
    assert "does not allow it (403)" in ran.err
    assert team.hub.read_token not in ran.err


@pytest.mark.parametrize("name", ["good-model", "a/b/c", "../x"])
def test_a_name_that_is_no_model_is_refused(name: str):
    ran = regrade("publish-results", name)
    assert (ran.code, "should be a model on the Hub" in ran.err) == (2, True)
