"""Tasks as benchmarks: data, settings, refusals, and the list of names."""

import json
from pathlib import Path
from typing import Any

import pytest

from regrade.benchmarks import open_benchmark
from regrade.cli.main import run
from regrade.cli.run import EvaluateOptions
from regrade.engines.openai import OpenAIEngine
from regrade.jobs.job import GenerationJob
from regrade.jobs.plan import make_plan
from regrade.lm_eval.sampling import sampling_of
from regrade.settings import PromptSettings, SamplingParams
from regrade.settings.errors import SettingsError, SourceError
from tests.lm_eval.stored import SERVED, data_folder, harness_task

pytestmark = pytest.mark.usefixtures("indexed")


@pytest.fixture
def gsm8k(tmp_path: Path) -> Path:
    return data_folder(tmp_path, "openai/gsm8k", ("main",))


def test_the_identity_says_what_decides_the_requests(gsm8k: Path) -> None:
    benchmark = harness_task("gsm8k", gsm8k)

    identity = benchmark.identity
    assert (identity.name, identity.source, identity.split) == ("lm_eval:gsm8k", "local", "test")
    assert identity.parameters["harness"] == "lm_eval 0.4.13"
    assert sorted(identity.parameters["datasets"]) == ["test.parquet", "train.parquet"]
    assert identity.parameters["tasks"]["gsm8k"]["n_shots"] == 5
    assert benchmark.prompt_identity.n_shots == 5


def test_other_data_is_another_identity(gsm8k: Path, tmp_path: Path) -> None:
    before = harness_task("gsm8k", gsm8k).identity
    rows = [json.dumps({"question": f"{n}?", "answer": f"#### {n}"}) for n in range(9)]
    other = tmp_path / "other"
    other.mkdir()
    for split in ("train", "test"):
        (other / f"{split}.jsonl").write_text("\n".join(rows) + "\n")

    assert harness_task("gsm8k", other).identity.source_revision != before.source_revision


def test_settings_of_prompts_are_the_harnesses_own(gsm8k: Path) -> None:
    prompt = PromptSettings(n_shots=1, format="chat", system="Be brief.")
    benchmark = open_benchmark("lm_eval:gsm8k", prompt=prompt, source=str(gsm8k))

    messages = benchmark.prompt(benchmark.samples()[0])

    roles = [m["role"] for m in messages if not isinstance(m, str)]
    assert roles == ["system", "user", "assistant", "user"]


def test_a_name_with_the_prefix_is_a_benchmark(gsm8k: Path) -> None:
    assert open_benchmark("lm_eval:gsm8k", source=str(gsm8k), limit=2).samples()[1].index == 4


def test_a_missing_split_is_named(gsm8k: Path) -> None:
    (gsm8k / "train.parquet").unlink()

    with pytest.raises(SourceError, match="the folder lacks a file 'train'"):
        harness_task("gsm8k", gsm8k).samples()


def test_a_group_that_generates_and_ranks_is_refused() -> None:
    with pytest.raises(SettingsError, match="some of its tasks generate text and others rank"):
        _ = open_benchmark("lm_eval:leaderboard").method


@pytest.mark.parametrize(
    ("generation", "sampling"),
    [
        (None, SamplingParams(max_tokens=256, stop=("\n\n",))),
        (
            {"until": "Q:", "do_sample": False, "temperature": 0.7},
            SamplingParams(max_tokens=256, stop=("Q:",)),
        ),
        ({"until": [], "max_new_tokens": 7}, SamplingParams(max_tokens=7)),
        (
            {"until": ["\n"], "do_sample": True, "temperature": 0.2, "max_gen_toks": 9},
            SamplingParams(temperature=0.2, max_tokens=9, stop=("\n",)),
        ),
    ],
)
def test_generation_settings_are_sampling_params(
    generation: dict[str, Any] | None, sampling: SamplingParams
) -> None:
    assert sampling_of("mine", generation, "\n\n") == sampling


def test_a_generation_setting_that_would_be_ignored_is_refused() -> None:
    with pytest.raises(SettingsError, match="does not know its generation setting 'num_beams'"):
        sampling_of("mine", {"num_beams": 10}, "\n\n")


def test_tasks_stand_among_the_benchmarks_of_the_command_line() -> None:
    options = EvaluateOptions(
        model=("m",), benchmarks=("gsm8k", "lm_eval:arc_challenge"), lm_eval_path="own"
    )

    parameters = options.parameters()

    assert parameters["benchmarks"] == ["gsm8k"]
    assert parameters["lm_eval"] == {"tasks": ["arc_challenge"], "path": "own"}
    job = GenerationJob.model_validate(parameters)
    assert job.names == ("gsm8k", "lm_eval:arc_challenge")


def test_names_are_listed_with_the_reason_why_one_cannot_be_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["benchmarks", "--lm-eval", "humaneval"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("lm_eval:humaneval  task") for line in lines)
    assert all("cannot be run" in line for line in lines)

    assert run(["benchmarks", "--lm-eval", "mmlu", "--json"]) == 0
    found = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["lm_eval"]}
    assert found["lm_eval:mmlu"]["tasks"] == 57
    assert found["lm_eval:mmlu"]["cannot_run"] is None

    assert run(["benchmarks", "--lm-eval", "nothing_like_it"]) == 2


@pytest.mark.parametrize(
    ("spec", "data", "problem"),
    [
        ("hellaswag", "Rowan/hellaswag", "ranks continuations"),
        ("arc_challenge_chat@chat", "allenai/ai2_arc", "begins the model's answers"),
    ],
)
def test_a_server_is_not_asked_what_it_cannot_answer(
    spec: str, data: str, problem: str, tmp_path: Path
) -> None:
    benchmark = harness_task(spec, data_folder(tmp_path, data, (None,)))
    engine, prompt = OpenAIEngine(base_url="http://127.0.0.1:9/v1"), PromptSettings()

    with pytest.raises(SettingsError, match=problem):
        make_plan(benchmark, SERVED, engine, sampling=None, prompt=prompt, repeats=None)
